#pragma once

#include <cstdint>
#include <span>

#include "kernels/args/common.h"

namespace flashbert {

/// Norms are sums over fixed chunks of this many elements in tensor coordinates, each chunk summed in f32 or better, chunks merged
/// in order in f64: the same for any sharding and thread count.
inline constexpr std::int64_t kNormChunk = 4096;

/// Result of GlobalNorm in device memory: norm (1) f32, clip_scale (1) f32 = min(1, clip / norm), first_bad (1) i32 = index of the
/// first tensor with a NaN or infinity, or -1. A norm whose square overflows f64 cannot occur; f32 squares may under- or overflow,
/// so squares are summed in f64.
struct NormResult {
  Tensor norm, clip_scale, first_bad;
};

/// Euclidean norm over all tensors (f32, contiguous).
struct GlobalNorm {
  NormResult result;
  std::span<const ConstTensor> tensors;
  float clip = 1.0F;
};

/// Scalars of one update, in device memory (ConstTensor of f32 with kLambScalars elements), so that a captured graph replays unchanged.
enum LambScalar : std::int64_t {
  kLearningRate = 0,
  kBiasCorrection1,  ///< 1 - beta1^t, t = 1 at the first update
  kBiasCorrection2,  ///< 1 - beta2^t
  kLambScalars
};

/// One parameter. weight, m, v, gradient: f32, equal shape, contiguous. compute: the compute-dtype copy that is refreshed in the
/// same pass, or absent (compute in f32: the weight itself).
struct LambParameter {
  Tensor weight, m, v, compute;
  ConstTensor gradient;
  bool decay = true;  ///< weight decay and trust ratio; false for biases and LayerNorm parameters (ratio 1)
};

/// One LAMB update of every parameter:
///   g = clip_scale * gradient; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; u = (m / c1) / (sqrt(v / c2) + eps) [+ wd * w];
///   ratio = ||w|| / ||u|| where decay and both norms > 0, else 1; w -= ratio * lr * u.
/// The quotient of u is 0 where its denominator is 0 (eps = 0 and no gradient so far).
/// scalars: LambScalar (learning rate and bias corrections c1, c2). clip_scale (1) f32 and first_bad (1) i32 from GlobalNorm: where
/// first_bad is not -1 nothing is changed. weight_norm, update_norm, trust_ratio (parameters) f32 are written for whoever asks.
/// Source: You et al. 2020; the MLPerf reference's form (docs/benchmark-rules.md).
struct LambUpdate {
  std::span<const LambParameter> parameters;
  ConstTensor scalars, clip_scale, first_bad;
  Tensor weight_norm, update_norm, trust_ratio;
  /// In f64: 1 - beta2 of an f32 beta2 would be off by 1e-5 and disagree with the bias correction.
  double beta1 = 0.9, beta2 = 0.999;
  float epsilon = 1e-6F, weight_decay = 0.01F;
};

}  // namespace flashbert
