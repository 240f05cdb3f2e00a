#pragma once

#include "kernels/args/common.h"

namespace flashbert {

/// What the loss ops add up over the micro-batches of a step (or of an evaluation), in device memory.
/// nll_sum (1) f64; correct, counted (1) i64.
struct LossCounters {
  Tensor nll_sum, correct, counted;
};

/// Softmax cross-entropy over the first `classes` columns; columns past them are padding: they may hold anything (NaN included),
/// never win, and get gradient 0. logits (P, C) f32|bf16, labels (P) i32, -1 = ignored (tail).
/// nll = log(sum exp(x - max)) + max - x[label]; correct = the first column of the largest logit is the label.
/// With gradient on, logits are overwritten by scale * (softmax - onehot), 0 in ignored rows; scale (1) f32 in device memory.
/// nll is summed in f64 in row order; deterministic.
struct SoftmaxCrossEntropy {
  enum class Gradient { kNone, kInPlace };
  Tensor logits;
  ConstTensor labels, scale;
  LossCounters counters;
  std::int64_t classes = 0;
  Gradient gradient = Gradient::kInPlace;
};

}  // namespace flashbert
