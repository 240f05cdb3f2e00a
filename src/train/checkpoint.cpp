#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/whole_file.h"
#include "formats/safetensors.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

constexpr const char* kWeightsFile = "model.safetensors";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kStateFile = "state.json";

/// The file that holds the tensors; InputError that says what else the path is.
fs::path weights_file(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    check<InputError>(fs::is_regular_file(path / kWeightsFile, ignored),
                      "{} holds no {}; a Hugging Face folder or a saved step is expected", path.string(), kWeightsFile);
    return path / kWeightsFile;
  }
  const bool bundle = fs::exists(path.string() + ".index", ignored) || path.extension() == ".index";
  check<InputError>(!bundle, "{} is a TensorFlow checkpoint; this version reads safetensors: convert it first", path.string());
  check<InputError>(fs::is_regular_file(path, ignored), "{} does not exist or is no file", path.string());
  // A safetensors file starts with the length of its JSON header, which may look like anything, and the header's brace.
  std::array<char, 9> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), start.size());
  const bool safetensors = start[8] == '{';
  check<InputError>(safetensors || !((start[0] == 'P' && start[1] == 'K') || start[0] == '\x80'),
                    "{} is a PyTorch file; this version reads safetensors: convert it first", path.string());
  return path;
}

bool is_ignored(std::string_view name) { return name.ends_with("position_ids") || name.starts_with("cls.predictions.decoder."); }

/// The name under which a file holds a parameter: its own, or with the old gamma / beta of LayerNorm; empty if neither.
std::string stored_name(const SafetensorsFile& file, const std::string& name) {
  if (file.contains(name)) return name;
  for (const auto& [now, before] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
    const std::string_view ending = now;
    if (!name.ends_with(ending)) continue;
    std::string old = name.substr(0, name.size() - ending.size()) + before;
    if (file.contains(old)) return old;
  }
  return {};
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool is_vocabulary(const std::string& name) { return name == "bert.embeddings.word_embeddings.weight" || name == "cls.predictions.bias"; }

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

/// `count` elements of a file's tensor as f32; the data may be unaligned.
void read_floats(const ConstTensor& tensor, std::int64_t count, float* out) {
  const auto* const bytes = static_cast<const char*>(tensor.raw());
  const auto convert = [&]<class T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      T value;
      std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<T, bf16>) {
        out[i] = to_float(value);
      } else {
        out[i] = static_cast<float>(value);
      }
    }
  };
  switch (tensor.dtype()) {
    case Dtype::kF32:
      convert(float{});
      return;
    case Dtype::kF64:
      convert(double{});
      return;
    case Dtype::kBf16:
      convert(bf16{});
      return;
    default:
      throw InputError(fmt::format("a tensor of {} cannot hold weights", name_of(tensor.dtype())));
  }
}

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

/// Other programs may write anything under our word.
std::optional<std::int64_t> whole_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

double norm_of(const ConstTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  read_floats(tensor, tensor.elements(), values.data());
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
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

std::optional<fs::path> config_beside(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(checkpoint, ignored) ? checkpoint : checkpoint.parent_path();
  if (fs::is_regular_file(folder / kConfigFile, ignored)) return folder / kConfigFile;
  return std::nullopt;
}

CheckpointSummary inspect_checkpoint(const fs::path& path) {
  const SafetensorsFile file(weights_file(path));
  CheckpointSummary summary;
  std::error_code ignored;
  summary.format = fs::is_directory(path, ignored) ? "huggingface" : "safetensors";
  for (const std::string& name : file.names()) {
    const std::string_view dtype = file.dtype_name(name);
    const bool floating = dtype == "F32" || dtype == "F64" || dtype == "BF16";
    summary.tensors.push_back(
        {.name = name,
         .shape = file.shape(name),
         .dtype = std::string(dtype),
         .norm = floating && file.shape(name).size() <= Shape::kMaxRank ? std::optional(norm_of(file.tensor(name))) : std::nullopt});
  }
  if (const auto step = file.metadata().find("step"); step != file.metadata().end()) summary.step = whole_number(step->second);
  return summary;
}

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

void save_checkpoint(const fs::path& out, const CheckpointState& state, const BertConfig& config, const Parameters& parameters, Ops& ops,
                     std::int64_t keep) {
  const fs::path folder = out / "checkpoints";
  const std::string name = fmt::format("step-{:08d}", state.step);
  const fs::path temporary = folder / fmt::format(".{}.partial", name);
  try {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
    std::vector<std::vector<float>> values;
    std::vector<NamedTensor> tensors;
    for (std::size_t i = 0; i < parameters.table().parameters().size(); ++i) {
      const ParameterInfo& info = parameters.table().parameters()[i];
      auto& host = values.emplace_back(static_cast<std::size_t>(info.shape.elements()));
      ops.context().read(host.data(), parameters.parameter_master(i));
      tensors.push_back({info.name, ConstTensor(host.data(), Dtype::kF32, info.shape)});
    }
    write_safetensors(temporary / kWeightsFile, tensors, {{"format", "pt"}, {"step", std::to_string(state.step)}});
    write_whole_file(temporary / kConfigFile, hugging_face_config_text(config));
    const nlohmann::ordered_json json = {{"step", state.step}, {"samples", state.samples}, {"seed", state.seed}};
    write_whole_file(temporary / kStateFile, json.dump(1) + "\n");
    fs::remove_all(folder / name);
    fs::rename(temporary, folder / name);
    write_whole_file(folder / "latest", name + "\n");
    prune(folder, keep);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw EnvironmentError(fmt::format("cannot save step {} under {}: {}", state.step, folder.string(), error.what()));
  }
}

std::string convert_checkpoint(const fs::path& in, const fs::path& out, const ConvertOptions& options) {
  std::error_code ignored;
  check<ConfigError>(options.format.empty() || options.format == "safetensors" || options.format == "huggingface",
                     "format is '{}'; this version writes safetensors and huggingface", options.format);
  const bool folder_form = out.string().ends_with('/') || fs::is_directory(out, ignored);
  const bool file_form = out.extension() == ".safetensors" || fs::is_regular_file(out, ignored);
  const bool folder = options.format.empty() ? folder_form : options.format == "huggingface";
  check<ConfigError>(!options.format.empty() || folder_form || file_form,
                     "cannot tell the format of {}: give --format, end it with .safetensors, or with '/' for a Hugging Face folder",
                     out.string());
  check<ConfigError>(!(folder ? file_form : folder_form), "format {} is written as a {}, but {} is a {}; choose another place",
                     folder ? "huggingface" : "safetensors", folder ? "folder" : "file", out.string(), folder ? "file" : "folder");
  const fs::path target = folder ? out / kWeightsFile : out;
  check<ConfigError>(!fs::equivalent(weights_file(in), target, ignored), "{} is the checkpoint to be converted; choose another place",
                     target.string());
  for (const fs::path& written : {target, folder ? out / kConfigFile : target}) {
    check<ConfigError>(options.overwrite || !fs::exists(written, ignored), "{} exists; choose another place or add --overwrite",
                       written.string());
  }
  const SafetensorsFile file(weights_file(in));
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  BertConfig config;
  std::string note;
  const auto source_config = options.model.empty() ? config_beside(in) : std::optional(options.model);
  if (source_config) config = read_hugging_face_config(*source_config, nullptr);
  for (const std::string& name : file.names()) {
    if (is_ignored(name)) continue;
    const ConstTensor tensor = file.tensor(name);
    const std::int64_t rows = tensor.rank() == 0 ? 1 : tensor.extent(0);
    const std::int64_t columns = tensor.shape().row_elements();
    const std::int64_t new_rows = is_vocabulary(name) && options.vocab_size > 0 ? options.vocab_size : rows;
    auto& host = values.emplace_back(static_cast<std::size_t>(new_rows * columns), 0.0F);
    read_floats(tensor, std::min(rows, new_rows) * columns, host.data());
    const Shape shape = tensor.rank() == 1 ? Shape{new_rows} : tensor.rank() == 2 ? Shape{new_rows, columns} : tensor.shape();
    tensors.push_back({name, ConstTensor(host.data(), Dtype::kF32, shape)});
    if (name.ends_with("word_embeddings.weight")) {
      config.vocab = new_rows;
      config.hidden = columns;
    }
  }
  if (!source_config && folder) {
    config.heads = std::max<std::int64_t>(config.hidden / 64, 1);
    note = fmt::format("no config.json beside {}: heads taken as hidden / 64 = {}", in.string(), config.heads);
    config.layers = 0;
    while (file.contains(fmt::format("bert.encoder.layer.{}.output.dense.weight", config.layers))) ++config.layers;
    if (file.contains("bert.encoder.layer.0.intermediate.dense.weight")) {
      config.intermediate = file.shape("bert.encoder.layer.0.intermediate.dense.weight")[0];
    }
    if (file.contains("bert.embeddings.position_embeddings.weight")) {
      config.max_positions = file.shape("bert.embeddings.position_embeddings.weight")[0];
    }
  }
  if (folder) fs::create_directories(out, ignored);
  write_safetensors(target, tensors, {{"format", "pt"}});
  if (folder) write_whole_file(out / kConfigFile, hugging_face_config_text(config));
  return note;
}

}  // namespace flashbert
