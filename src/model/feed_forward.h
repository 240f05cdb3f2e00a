#pragma once

#include "model/sublayer_output.h"

namespace flashbert {

/// y = LayerNorm(x + dropout(W_2 gelu(W_1 x + b_1) + b_2)), forward and backward, with its activations.
class FeedForward {
 public:
  FeedForward(const ActivationPlan& plan, std::int64_t layer, LayerRows rows);
  /// x (N, H), the rows of the layer; returns y (N, H).
  Tensor forward(const Pass& pass, ConstTensor x, const RowSet& rows) const;
  /// x as in forward. gradient (N, H): in dy, out dx.
  void backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const;

 private:
  [[nodiscard]] const LayerLinears& linears(const Pass& pass) const { return pass.parameters.layer(layer_); }
  [[nodiscard]] const LayerBlocks& blocks(const Pass& pass) const { return pass.parameters.table().layers[layer_]; }
  [[nodiscard]] SublayerOutput::Weights output_weights(const Pass& pass) const;

  std::size_t layer_;
  BufferId before_gelu_;   ///< (N, I)
  BufferId after_gelu_;    ///< (N, I)
  SublayerOutput output_;  ///< W_2 and b_2
};

}  // namespace flashbert
