#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace flashbert
