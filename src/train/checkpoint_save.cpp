#include "train/checkpoint_save.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/whole_file.h"
#include "formats/safetensors.h"
#include "train/checkpoint_files.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

constexpr const char* kStateFile = "state.json";

void write_weights(const fs::path& file, std::int64_t step, const Parameters& parameters, Ops& ops) {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < parameters.table().parameters().size(); ++i) {
    const ParameterInfo& info = parameters.table().parameters()[i];
    auto& host = values.emplace_back(static_cast<std::size_t>(info.shape.elements()));
    ops.context().read(host.data(), parameters.parameter_master(i));
    tensors.push_back({info.name, ConstTensor(host.data(), Dtype::kF32, info.shape)});
  }
  write_safetensors(file, tensors, {{"format", "pt"}, {"step", std::to_string(step)}});
}

/// Removes all but the newest `keep` saves; names of equal length sort by step, longer ones are later.
void prune(const fs::path& folder, std::int64_t keep) {
  std::vector<fs::path> saves;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("step-")) saves.push_back(entry.path());
  }
  std::sort(saves.begin(), saves.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(a.native().size(), a.native()) < std::pair(b.native().size(), b.native());
  });
  for (std::size_t i = 0; i + static_cast<std::size_t>(std::max<std::int64_t>(keep, 1)) < saves.size(); ++i) fs::remove_all(saves[i]);
}

}  // namespace

void save_checkpoint(const SaveOptions& options, const Parameters& parameters, Ops& ops) {
  const CheckpointState& state = options.state;
  const fs::path folder = options.out / "checkpoints";
  const std::string name = fmt::format("step-{:08d}", state.step);
  const fs::path temporary = folder / fmt::format(".{}.partial", name);
  try {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    write_weights(temporary / kWeightsFile, state.step, parameters, ops);
    write_whole_file(temporary / kConfigFile, hugging_face_config_text(options.model));
    const nlohmann::ordered_json json = {{"step", state.step}, {"samples", state.samples}, {"seed", state.seed}};
    write_whole_file(temporary / kStateFile, json.dump(1) + "\n");
    fs::remove_all(folder / name);
    fs::rename(temporary, folder / name);
    write_whole_file(folder / "latest", name + "\n");
    prune(folder, options.keep);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw EnvironmentError(fmt::format("cannot save step {} under {}: {}", state.step, folder.string(), error.what()));
  }
}

}  // namespace flashbert
