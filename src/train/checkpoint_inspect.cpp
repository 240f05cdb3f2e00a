#include "train/checkpoint_inspect.h"

#include <charconv>
#include <cmath>

#include "train/checkpoint_files.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

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

}  // namespace

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

}  // namespace flashbert
