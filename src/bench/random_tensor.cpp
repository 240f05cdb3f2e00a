#include "bench/random_tensor.h"

#include <random>
#include <vector>

namespace flashbert {

RandomTensor::RandomTensor(Context& context, Dtype dtype, const Shape& shape, float scale)
    : buffer_(context.allocate(shape.elements() * static_cast<std::int64_t>(size_of(dtype)), MemoryKind::kDevice)),
      tensor_(buffer_.tensor(dtype, shape)) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const auto fill = [&](auto values, const auto& convert) {
    for (auto& value : values) value = convert(uniform(generator));
    if (!values.empty()) context.write(tensor_, values.data());
  };
  const auto elements = static_cast<std::size_t>(shape.elements());
  if (dtype == Dtype::kBf16) fill(std::vector<bf16>(elements), [](float value) { return to_bf16(value); });
  if (dtype == Dtype::kF32) fill(std::vector<float>(elements), [](float value) { return value; });
}

}  // namespace flashbert
