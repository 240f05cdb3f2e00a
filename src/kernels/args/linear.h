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

/// What a product's result goes through before it is stored.
enum class Activation { kNone, kGelu };

/// y = x W^T + bias, or y = gelu(x W^T + bias), tanh form (kernels/formulas.h). x (T, K), y (T, N): f32 or bf16, x of W's dtype; rows may
/// be strided; y must not alias x. bias (N) f32 or absent. before_gelu (T, N) of y's dtype, with kGelu only: gets what went into GELU,
/// for LinearInputGradient; absent where nothing is trained; must alias neither x nor y. Whether GELU sees the sum rounded to y's dtype or
/// not is the backend's choice; y is the same with and without before_gelu.
/// Sums in f32 in an order that depends on shapes only: bit-equal for any thread count. T = 0 is allowed.
/// Throws ShapeError, DtypeError.
struct LinearForward {
  Tensor y;
  ConstTensor x;
  LinearWeights weights;
  ConstTensor bias;
  Activation activation = Activation::kNone;
  Tensor before_gelu = {};
};

/// dx = dy W, or dx += dy W. dy (T, N), dx (T, K) of W's dtype, rows may be strided. The sum with the old dx is rounded once.
/// With before_gelu (T, K) of dx's dtype, which the layer below kept: dx = (dy W) gelu'(before_gelu), which is that layer's dy; only with
/// accumulate = kOverwrite; whether dy W is rounded to dx's dtype before the product is the backend's choice. Then dbias (K) f32, where
/// present, gets the layer below's bias gradient, the column sums of dx as stored, by dbias_accumulate; its sum over T is split into fixed
/// blocks added in order. A zero row of dy gives a zero row of dx where before_gelu is finite. T = 0 with kOverwrite gives a zero dbias.
/// Throws ShapeError, DtypeError. Bit-equal for any thread count.
struct LinearInputGradient {
  Tensor dx;
  ConstTensor dy;
  LinearWeights weights;
  Accumulate accumulate = Accumulate::kOverwrite;  ///< of dx
  ConstTensor before_gelu = {};
  Tensor dbias = {};
  Accumulate dbias_accumulate = Accumulate::kAdd;
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
