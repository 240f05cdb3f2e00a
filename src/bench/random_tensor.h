#pragma once

#include "core/context.h"

namespace flashbert {

/// A buffer of its own, on the context's device, with uniform values in [-scale, scale): the same for the same shape and type. Integer
/// types hold zeros.
class RandomTensor {
 public:
  RandomTensor(Context& context, Dtype dtype, const Shape& shape, float scale);
  [[nodiscard]] Tensor tensor() const { return tensor_; }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

}  // namespace flashbert
