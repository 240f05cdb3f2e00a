#pragma once

#include "kernels/args/common.h"

namespace flashbert {

/// y = gelu(x), tanh form (kernels/formulas.h). x, y (T, I) f32|bf16, the same; y may alias x.
struct GeluForward {
  Tensor y;
  ConstTensor x;
};
/// dx = dy * gelu'(x). dx may alias dy.
struct GeluBackward {
  Tensor dx;
  ConstTensor dy, x;
};

/// y = tanh(x). y may alias x.
struct TanhForward {
  Tensor y;
  ConstTensor x;
};
/// dx = dy * (1 - y^2). dx may alias dy.
struct TanhBackward {
  Tensor dx;
  ConstTensor dy, y;
};

/// out[r] = in[index[r]], a zero row where index[r] is -1. in (T, H), out (R, H): f32|bf16, the same, rows may be
/// strided; out must not alias in. index (R) i32.
struct GatherRows {
  Tensor out;
  ConstTensor in, index;
};
/// out[index[r]] += in[r]; -1 skips. Indices other than -1 are distinct. in (R, H), out (T, H): f32|bf16, the same,
/// rows may be strided; out must not alias in. f32 sum, one rounding.
struct ScatterAddRows {
  Tensor out;
  ConstTensor in, index;
};

/// to = from, converted (f32 and bf16 in any combination; round to nearest even). Equal shapes, contiguous.
struct Cast {
  Tensor to;
  ConstTensor from;
};

/// y = factor * scale * x (+ y). x, y f32 of equal shape, contiguous, may be the same tensor with kOverwrite. scale: (1) f32 in
/// device memory, or absent for 1.
struct ScaledCopy {
  Tensor y;
  ConstTensor x, scale;
  float factor = 1.0F;
  Accumulate accumulate = Accumulate::kOverwrite;
};

}  // namespace flashbert
