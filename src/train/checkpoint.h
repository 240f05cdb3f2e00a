#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/parameters.h"

namespace flashbert {

/// What `checkpoint inspect` shows.
struct CheckpointSummary {
  struct Entry {
    std::string name;
    std::vector<std::int64_t> shape;
    std::string dtype;           ///< the file's word
    std::optional<double> norm;  ///< Euclidean, of element types that are read
  };
  std::string format;                ///< "safetensors" or "huggingface" (a folder)
  std::optional<std::int64_t> step;  ///< updates done, where the file tells
  std::vector<Entry> tensors;
  bool optimizer = false;  ///< holds LAMB state
};

/// Finds the format by content: a safetensors file, or a folder with model.safetensors (Hugging Face's, or one of our saves).
/// Throws InputError for anything else, naming what it is where that can be told (TensorFlow, PyTorch: not read by this version).
CheckpointSummary inspect_checkpoint(const std::filesystem::path& path);

/// Reads the names and shapes only and throws the InputErrors that load_checkpoint would.
void check_checkpoint(const std::filesystem::path& path, const ParameterTable& table);

/// Fills the masters of all parameters from a checkpoint and refreshes the copies. Names are Hugging Face's; LayerNorm gamma / beta are
/// accepted for weight / bias; the vocabulary may be padded to a multiple of 8 or 64 in the file; position_ids and the tied decoder
/// are ignored. Every parameter must be found with its shape (missing and unknown tensors are all listed in the InputError).
void load_checkpoint(const std::filesystem::path& path, Parameters& parameters, Ops& ops);

/// Model shape from a config.json beside the checkpoint (or in the folder); nothing where there is none.
std::optional<std::filesystem::path> config_beside(const std::filesystem::path& checkpoint);

/// One save under OUT/checkpoints: step-%08d/{model.safetensors, config.json, state.json}, the file `latest`, and only the newest `keep`
/// saves left. The folder appears under its final name when it is whole.
struct CheckpointState {
  std::int64_t step = 0;  ///< updates done
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
};
void save_checkpoint(const std::filesystem::path& out, const CheckpointState& state, const BertConfig& config, const Parameters& parameters,
                     Ops& ops, std::int64_t keep);

/// Writes IN's tensors to OUT: a .safetensors file, or a folder (existing, or a trailing '/') with model.safetensors and config.json.
/// Elements become f32; vocab_size > 0 cuts or pads the vocabulary (padding is zero).
struct ConvertOptions {
  std::string format;  ///< safetensors or huggingface; empty = from OUT's form, which must not contradict it
  std::int64_t vocab_size = 0;
  std::filesystem::path model;  ///< config.json for what tensors cannot tell
  bool overwrite = false;       ///< else an existing file is a ConfigError
};
/// Returns a sentence about what was assumed (heads), or an empty text.
std::string convert_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out, const ConvertOptions& options);

}  // namespace flashbert
