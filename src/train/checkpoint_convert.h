#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace flashbert {

struct ConvertOptions {
  std::string format;           ///< safetensors or huggingface; empty = from OUT's form, which must not contradict it
  std::int64_t vocab_size = 0;  ///< 0 = as it is
  std::filesystem::path model;  ///< config.json for what tensors cannot tell
  bool overwrite = false;       ///< else an existing file is a ConfigError
};
/// Writes IN's tensors to OUT: a .safetensors file, or a folder (existing, or a trailing '/') with model.safetensors and config.json.
/// Elements become f32; vocab_size > 0 cuts or pads the vocabulary (padding is zero). Returns a sentence about what was assumed (heads), or
/// an empty text. Throws ConfigError (the place, the format) before anything is read, InputError for a file that is no checkpoint.
std::string convert_checkpoint(const std::filesystem::path& in, const std::filesystem::path& out, const ConvertOptions& options);

}  // namespace flashbert
