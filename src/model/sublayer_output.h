#pragma once

#include "model/layer_norm.h"

namespace flashbert {

/// How both sublayers of a post-LN layer end: y = LayerNorm(x + dropout(W h + b)), where x (N, H) is what the sublayer was given and
/// h (N, heads * head size or I) what it has computed. Forward and the first part of backward.
class SublayerOutput {
 public:
  /// The site and the layer tell its dropout masks apart from others'.
  SublayerOutput(const ActivationPlan& plan, std::int64_t max_rows, std::int64_t layer, DropoutSite site);

  /// W and b, and the blocks of all parameters.
  struct Weights {
    const LinearLayer& linear;
    std::size_t weight, bias, gamma, beta;
  };
  /// Returns y (N, H).
  Tensor forward(const Pass& pass, const Weights& weights, ConstTensor x, ConstTensor h, const RowSet& rows) const;
  /// gradient (N, H): in dy, out the gradient that reaches x past the sublayer. Parameter gradients are written. Returns the gradient at
  /// W h + b (N, H), in buffers.branch: the caller takes h's from it.
  Tensor backward(const Pass& pass, const Weights& weights, Tensor gradient, ConstTensor h, const BackwardBuffers& buffers) const;

 private:
  [[nodiscard]] Dropout dropout(const Pass& pass) const { return pass.dropout(rate_, layer_, site_); }
  float rate_;
  std::int64_t layer_;
  DropoutSite site_;
  LayerNorm norm_;
};

}  // namespace flashbert
