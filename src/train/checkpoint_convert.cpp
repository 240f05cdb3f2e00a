#include "train/checkpoint_convert.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/whole_file.h"
#include "model/bert_config.h"
#include "train/checkpoint_files.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// What is written: a folder with kWeightsFile and kConfigFile, or one file.
struct Target {
  bool folder = false;
  fs::path weights;
};

Target target_of(const fs::path& out, const std::string& format) {
  std::error_code ignored;
  check<ConfigError>(format.empty() || format == "safetensors" || format == "huggingface",
                     "format is '{}'; this version writes safetensors and huggingface", format);
  const bool folder_form = out.string().ends_with('/') || fs::is_directory(out, ignored);
  const bool file_form = out.extension() == ".safetensors" || fs::is_regular_file(out, ignored);
  const bool folder = format.empty() ? folder_form : format == "huggingface";
  check<ConfigError>(!format.empty() || folder_form || file_form,
                     "cannot tell the format of {}: give --format, end it with .safetensors, or with '/' for a Hugging Face folder",
                     out.string());
  check<ConfigError>(!(folder ? file_form : folder_form), "format {} is written as a {}, but {} is a {}; choose another place",
                     folder ? "huggingface" : "safetensors", folder ? "folder" : "file", out.string(), folder ? "file" : "folder");
  return {.folder = folder, .weights = folder ? out / kWeightsFile : out};
}

void check_place(const fs::path& in, const fs::path& out, const Target& target, bool overwrite) {
  std::error_code ignored;
  check<ConfigError>(!fs::equivalent(weights_file(in), target.weights, ignored),
                     "{} is the checkpoint to be converted; choose another place", target.weights.string());
  for (const fs::path& written : {target.weights, target.folder ? out / kConfigFile : target.weights}) {
    check<ConfigError>(overwrite || !fs::exists(written, ignored), "{} exists; choose another place or add --overwrite", written.string());
  }
}

/// A file's tensors as f32, with the memory that they lie in.
struct ConvertedTensors {
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
};

ConvertedTensors converted_tensors(const SafetensorsFile& file, std::int64_t vocab_size) {
  ConvertedTensors converted;
  for (const std::string& name : file.names()) {
    if (is_ignored(name)) continue;
    const ConstTensor tensor = file.tensor(name);
    const std::int64_t rows = tensor.rank() == 0 ? 1 : tensor.extent(0);
    const std::int64_t columns = tensor.shape().row_elements();
    const std::int64_t new_rows = is_vocabulary(name) && vocab_size > 0 ? vocab_size : rows;
    auto& host = converted.values.emplace_back(static_cast<std::size_t>(new_rows * columns), 0.0F);
    read_floats(tensor, std::min(rows, new_rows) * columns, host.data());
    const Shape shape = tensor.rank() == 1 ? Shape{new_rows} : tensor.rank() == 2 ? Shape{new_rows, columns} : tensor.shape();
    converted.tensors.push_back({name, ConstTensor(host.data(), Dtype::kF32, shape)});
  }
  return converted;
}

/// Vocabulary and hidden size are the converted tensors', whatever a config.json says.
void take_word_table(const std::vector<NamedTensor>& tensors, BertConfig& config) {
  for (const NamedTensor& named : tensors) {
    if (!named.name.ends_with("word_embeddings.weight")) continue;
    config.vocab = named.tensor.rank() == 0 ? 1 : named.tensor.extent(0);
    config.hidden = named.tensor.shape().row_elements();
  }
}

/// The rest of the shape from the names and extents of the file; heads cannot be told from them.
void infer_shape(const SafetensorsFile& file, BertConfig& config) {
  config.heads = std::max<std::int64_t>(config.hidden / 64, 1);
  config.layers = 0;
  while (file.contains(fmt::format("bert.encoder.layer.{}.output.dense.weight", config.layers))) ++config.layers;
  if (file.contains("bert.encoder.layer.0.intermediate.dense.weight")) {
    config.intermediate = file.shape("bert.encoder.layer.0.intermediate.dense.weight")[0];
  }
  if (file.contains("bert.embeddings.position_embeddings.weight")) {
    config.max_positions = file.shape("bert.embeddings.position_embeddings.weight")[0];
  }
}

}  // namespace

std::string convert_checkpoint(const fs::path& in, const fs::path& out, const ConvertOptions& options) {
  const Target target = target_of(out, options.format);
  check_place(in, out, target, options.overwrite);
  const SafetensorsFile file(weights_file(in));
  BertConfig config;
  const auto source_config = options.model.empty() ? config_beside(in) : std::optional(options.model);
  if (source_config) config = read_hugging_face_config(*source_config, nullptr);
  const ConvertedTensors converted = converted_tensors(file, options.vocab_size);
  take_word_table(converted.tensors, config);
  std::string note;
  if (!source_config && target.folder) {
    infer_shape(file, config);
    note = fmt::format("no config.json beside {}: heads taken as hidden / 64 = {}", in.string(), config.heads);
  }
  std::error_code ignored;
  if (target.folder) fs::create_directories(out, ignored);
  write_safetensors(target.weights, converted.tensors, {{"format", "pt"}});
  if (target.folder) write_whole_file(out / kConfigFile, hugging_face_config_text(config));
  return note;
}

}  // namespace flashbert
