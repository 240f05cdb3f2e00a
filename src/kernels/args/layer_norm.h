#pragma once

#include "kernels/args/common.h"
#include "kernels/formulas.h"

namespace flashbert {

/// z = residual + dropout(x); y = (z - mean) * rstd * gamma + beta over the hidden axis; rstd = 1 / sqrt(var + eps), var biased.
/// x, residual, y, z (T, H) f32|bf16, all the same, H a multiple of 8; residual may be absent (z = dropout(x)); z may alias x or be
/// absent (not kept, evaluation), y must alias nothing. gamma, beta (H) f32. mean, rstd (T) f32. Statistics are of z before it is
/// rounded to its dtype. keep_bits (T, keep_words(H)) u32, written when dropout is active, else absent. origin is read when dropout
/// is active; tail rows (sequence -1) are kept undropped. Two passes: E[x^2] - E[x]^2 cancels when |mean| >> std.
/// Throws ShapeError, DtypeError. Source: Ba et al. 2016 eq. 3-4; BERT uses eps = 1e-12.
struct DropoutAddLayerNormForward {
  Tensor y, z, mean, rstd, keep_bits;
  ConstTensor x, residual, gamma, beta;
  RowOrigin origin;
  Dropout dropout;
  float eps = kBertLayerNormEps;
};

/// dz = gradient at z (the residual's gradient); dx = dz masked and scaled as in forward; dgamma, dbeta (H) f32 are added to or
/// overwritten. dy, z (T, H). dx may be absent where dropout is inactive (then it equals dz) and may alias dz; dz may alias dy.
/// Parameter gradients are sums over fixed blocks of rows added in order: bit-equal for any thread count.
struct DropoutAddLayerNormBackward {
  Tensor dz, dx, dgamma, dbeta;
  ConstTensor dy, z, mean, rstd, gamma, keep_bits;
  Dropout dropout;
  Accumulate accumulate = Accumulate::kAdd;
};

}  // namespace flashbert
