#pragma once

#include <cmath>

#include "core/dtype.h"
#include "model/bert_config.h"

namespace flashbert::testing {

/// How far a training step may be from exact arithmetic. Every result goes through a chain of sums; a sum of n rounded terms is off by
/// about u sqrt(n) of its size when the rounding errors are independent, and independent sums add in squares. So the relative error of a
/// gradient (as a whole, Euclidean) is bounded by u sqrt(N), N = the lengths of all sums on the longest path: per layer query / key /
/// value, scores, values, projection and both feed-forward products, forward, backward and once more recomputed or for the weights, then
/// the vocabulary and the tokens.
struct GoldenTolerance {
  double loss = 1e-6;     ///< relative, as the goal for f32
  double gradient = 0.0;  ///< relative, Euclidean, per tensor; of the gradient norm too
  double weights = 0.0;   ///< error over change, Euclidean, per tensor, after `steps` updates
};

inline GoldenTolerance golden_tolerance(const BertConfig& model, double tokens, double unit, int steps) {
  const double layer =
      static_cast<double>(3 * model.hidden + model.head_dim() + model.max_positions + model.hidden + 2 * model.intermediate);
  const double sums = 3.0 * static_cast<double>(model.layers) * layer + static_cast<double>(model.vocab) + tokens;
  GoldenTolerance tolerance;
  tolerance.gradient = unit * std::sqrt(sums);
  // An update is m / sqrt(v): twice the gradient's relative error; the errors of `steps` updates add, and each moves the next gradient as
  // much again.
  tolerance.weights = 2.0 * 2.0 * steps * tolerance.gradient;
  return tolerance;
}

/// Relative, for losses and gradients in bf16: activations are rounded to bf16 a fixed number of times a layer (about 12 forward and as
/// many backward), independent of sum lengths, whose terms are added in f32.
inline double bf16_tolerance(const BertConfig& model) {
  return unit_roundoff(Dtype::kBf16) * std::sqrt(12.0 * 2.0 * static_cast<double>(model.layers));
}

}  // namespace flashbert::testing
