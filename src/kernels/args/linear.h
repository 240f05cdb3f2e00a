#pragma once

#include "kernels/args/common.h"

namespace flashbert {

/// Weights of y = x W^T + b: W (N, K) in the compute dtype, and the backend's own copy of it in the layout its products want.
/// pack: u8, Ops::linear_pack_bytes(...) elements (absent where that is 0); filled by Ops::linear_pack whenever W has changed.
struct LinearWeights {
  ConstTensor weight;
  Tensor pack;
};

/// Fills weights.pack from weights.weight.
struct LinearPack {
  LinearWeights weights;
};

/// y = x W^T + bias. x (T, K), y (T, N): f32 or bf16, x of W's dtype; rows may be strided; y must not alias x. bias (N) f32 or absent.
/// Sums in f32 in an order that depends on shapes only: bit-equal for any thread count. T = 0 is allowed.
/// Throws ShapeError, DtypeError.
struct LinearForward {
  Tensor y;
  ConstTensor x;
  LinearWeights weights;
  ConstTensor bias;
};

/// dx = dy W, or dx += dy W. dy (T, N), dx (T, K) of W's dtype, rows may be strided. The sum with the old dx is rounded once.
struct LinearInputGradient {
  Tensor dx;
  ConstTensor dy;
  LinearWeights weights;
  Accumulate accumulate = Accumulate::kOverwrite;
};

/// dW = dy^T x and dbias = column sums of dy, or added to what is there. dweight (N, K) f32, dbias (N) f32 or absent; dy (T, N),
/// x (T, K) f32 or bf16, the same, rows may be strided. The sum over T is split into fixed blocks added in order: bit-equal for any
/// thread count. T = 0 with kOverwrite gives zeros.
struct LinearWeightGradient {
  Tensor dweight, dbias;
  ConstTensor dy, x;
  Accumulate accumulate = Accumulate::kAdd;
};

}  // namespace flashbert
