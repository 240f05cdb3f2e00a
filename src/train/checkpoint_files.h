#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "formats/safetensors.h"

namespace flashbert {

// What a checkpoint is on disk: its files, the names in them and their elements. Loading, saving, converting and inspecting stand on this.

/// Names of the files in a Hugging Face folder and in a saved step.
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kConfigFile = "config.json";

/// The file that holds the tensors: the path itself, or kWeightsFile in the folder that it names. Throws InputError that says what else the
/// path is (TensorFlow, PyTorch: not read by this version).
std::filesystem::path weights_file(const std::filesystem::path& path);

/// Model shape from a config.json beside the checkpoint (or in the folder); nothing where there is none.
std::optional<std::filesystem::path> config_beside(const std::filesystem::path& checkpoint);

/// The name under which a file holds a parameter: its own, or with the old gamma / beta of LayerNorm; empty if neither.
std::string stored_name(const SafetensorsFile& file, const std::string& name);

/// Tensors that other programs write and that say nothing new: position_ids and the tied decoder.
bool is_ignored(std::string_view name);

/// Parameters whose first axis is the vocabulary, which files may pad.
bool is_vocabulary(const std::string& name);

/// The first `count` elements of a file's tensor as f32; the data may be unaligned. f32, f64 and bf16; InputError for other types.
void read_floats(const ConstTensor& tensor, std::int64_t count, float* out);

}  // namespace flashbert
