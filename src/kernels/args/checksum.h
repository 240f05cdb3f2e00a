#pragma once

#include <span>

#include "kernels/args/common.h"

namespace flashbert {

/// sum = the sum over all elements of bits(element) * (2 place + 3), modulo 2^64; places count through the tensors in their order, from 0.
/// Equal tensors have equal sums; the factors are odd and at least 3, so that any one changed bit changes the upper 63 bits of the sum, and
/// so do two elements that change places. tensors: f32, contiguous, any shape, empty ones too; sum (1) u64, overwritten.
/// Integers: the same on every device and for any thread count. Throws ShapeError, DtypeError.
struct Checksum {
  Tensor sum;
  std::span<const ConstTensor> tensors;
};

}  // namespace flashbert
