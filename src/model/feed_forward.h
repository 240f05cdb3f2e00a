#pragma once

#include "model/pass.h"

namespace flashbert {

/// y = LayerNorm(x + dropout(W_2 gelu(W_1 x + b_1) + b_2)), forward and backward, with its activations.
class FeedForward {
 public:
  FeedForward(const BertConfig& config, std::int64_t layer, std::int64_t max_rows, Dtype compute, ArenaPlan& plan);
  void bind(const Arena& arena);
  /// x, y (rows, H); origin tells the rows' dropout counters.
  Tensor forward(const Pass& pass, ConstTensor x, const RowOrigin& origin);
  /// gradient (rows, H): in dy, out dx.
  void backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers);

 private:
  BertConfig config_;
  std::int64_t layer_;
  BufferId before_gelu_id_, after_gelu_id_;
  Tensor before_gelu_, after_gelu_;
  ResidualNorm norm_;
};

}  // namespace flashbert
