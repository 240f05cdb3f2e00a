#pragma once

#include <memory>

#include "core/arena.h"

namespace flashbert {

/// A buffer of its own, on the context's device, with uniform values in [-scale, scale): the same for the same shape and type. Integer
/// types hold zeros. Looks into the memory from the host: on the CPU only.
class RandomTensor {
 public:
  RandomTensor(Context& context, Dtype dtype, const Shape& shape, float scale);
  [[nodiscard]] Tensor tensor() const { return arena_->tensor(id_); }

 private:
  ArenaPlan plan_;
  BufferId id_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace flashbert
