#pragma once

#include "core/tensor.h"
#include "kernels/args/common.h"

namespace flashbert::cpu {

/// dbias (N) f32 = column sums of dy (T, N), or added to what is there.
struct BiasGradient {
  Tensor dbias;
  ConstTensor dy;  ///< f32 or bf16, rows may be strided
  Accumulate accumulate = Accumulate::kAdd;
};

/// Blocks of kGradientDepth rows, each summed row after row from zero, added in order: the bits that a weight gradient's dbias has, for any
/// thread count.
void bias_gradient(const BiasGradient& args, int threads);

}  // namespace flashbert::cpu
