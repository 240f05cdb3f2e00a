#include "bench/random_tensor.h"

#include <random>

namespace flashbert {

RandomTensor::RandomTensor(Context& context, Dtype dtype, const Shape& shape, float scale) {
  id_ = plan_.book("bench", "tensor", dtype, shape);
  arena_ = std::make_unique<Arena>(plan_, context);
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const Tensor t = tensor();
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const float value = uniform(generator);
    if (dtype == Dtype::kBf16) {
      t.data<bf16>()[i] = to_bf16(value);
    } else if (dtype == Dtype::kF32) {
      t.data<float>()[i] = value;
    }
  }
}

}  // namespace flashbert
