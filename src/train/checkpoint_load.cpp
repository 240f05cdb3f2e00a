#include "train/checkpoint_load.h"

#include <set>
#include <vector>

#include "core/rounding.h"
#include "train/checkpoint_files.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// True when a stored shape fits a parameter: equal, or a vocabulary padded to a multiple of 8 or 64.
bool shape_fits(const std::vector<std::int64_t>& stored, const ParameterInfo& info) {
  if (static_cast<int>(stored.size()) != info.shape.rank()) return false;
  for (int axis = 0; axis < info.shape.rank(); ++axis) {
    const std::int64_t want = info.shape[axis];
    const std::int64_t have = stored[static_cast<std::size_t>(axis)];
    const bool padded = axis == 0 && is_vocabulary(info.name) && (have == round_up(want, 8) || have == round_up(want, 64));
    if (have != want && !padded) return false;
  }
  return true;
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

std::string unknown_and_missing(const SafetensorsFile& file, const ParameterTable& table) {
  std::set<std::string> known;
  std::string problems;
  for (const ParameterInfo& info : table.parameters()) {
    const std::string stored = stored_name(file, info.name);
    if (stored.empty()) {
      problems += fmt::format("\n  missing: {} {}", info.name, info.shape.text());
      continue;
    }
    known.insert(stored);
    if (!shape_fits(file.shape(stored), info)) {
      problems += fmt::format("\n  {} has shape {}, the model wants {}{}", stored, shape_text(file.shape(stored)), info.shape.text(),
                              is_vocabulary(info.name) ? fmt::format(" (first extent {}, {} or {})", info.shape[0],
                                                                     round_up(info.shape[0], 8), round_up(info.shape[0], 64))
                                                       : "");
    }
  }
  for (const std::string& name : file.names()) {
    if (known.count(name) == 0 && !is_ignored(name)) problems += fmt::format("\n  unknown: {}", name);
  }
  return problems;
}

void require_fit(const SafetensorsFile& file, const ParameterTable& table) {
  const std::string problems = unknown_and_missing(file, table);
  check<InputError>(problems.empty(), "{} does not fit the model (is --model or --config the one it was made with?):{}",
                    file.path().string(), problems);
}

}  // namespace

void check_checkpoint(const fs::path& path, const ParameterTable& table) { require_fit(SafetensorsFile(weights_file(path)), table); }

void load_checkpoint(const fs::path& path, Parameters& parameters, Ops& ops) {
  const SafetensorsFile file(weights_file(path));
  const ParameterTable& table = parameters.table();
  require_fit(file, table);
  std::vector<float> values;
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const ParameterInfo& info = table.parameters()[i];
    values.resize(static_cast<std::size_t>(info.shape.elements()));
    read_floats(file.tensor(stored_name(file, info.name)), info.shape.elements(), values.data());
    ops.context().write(parameters.parameter_master(i), values.data());
  }
  parameters.refresh(ops);
}

}  // namespace flashbert
