#include "train/checkpoint_files.h"

#include <array>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace flashbert {
namespace fs = std::filesystem;

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

std::optional<fs::path> config_beside(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path folder = fs::is_directory(checkpoint, ignored) ? checkpoint : checkpoint.parent_path();
  if (fs::is_regular_file(folder / kConfigFile, ignored)) return folder / kConfigFile;
  return std::nullopt;
}

std::string stored_name(const SafetensorsFile& file, const std::string& name) {
  if (file.contains(name)) return name;
  for (const auto& [current, older] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
    const std::string_view ending = current;
    if (!name.ends_with(ending)) continue;
    std::string old = name.substr(0, name.size() - ending.size()) + older;
    if (file.contains(old)) return old;
  }
  return {};
}

bool is_ignored(std::string_view name) { return name.ends_with("position_ids") || name.starts_with("cls.predictions.decoder."); }

bool is_vocabulary(const std::string& name) { return name == "bert.embeddings.word_embeddings.weight" || name == "cls.predictions.bias"; }

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

}  // namespace flashbert
