#pragma once

#include "model/activation_plan.h"
#include "model/pass.h"

namespace flashbert {

/// query = W_q x + b_q for the rows of the layer, key = W_k x + b_k and value = W_v x + b_v for all tokens; forward and backward.
/// A layer of all tokens makes all three in one product, side by side; a layer of head rows gathers these, and makes the queries apart
/// from keys and values.
class QueryKeyValue {
 public:
  QueryKeyValue(const ActivationPlan& plan, std::int64_t layer, LayerRows rows);

  /// query (N, H); key, value (T, H); rows may lie further apart than H.
  struct Views {
    Tensor query, key, value;
  };
  /// x (T, H). Returns x at the layer's rows (N, H): the residual of the sublayer.
  ConstTensor forward(const Pass& pass, ConstTensor x) const;
  /// What forward has made.
  [[nodiscard]] Views views(const Pass& pass) const;
  /// Where the gradients of the same must be written before backward: the query's may take the place of buffers.branch.
  [[nodiscard]] Views gradient_views(const Pass& pass, const BackwardBuffers& buffers) const;
  /// x as in forward. gradient (N, H): in, the gradient that reaches x past the sublayer; scratch afterwards. Parameter gradients are
  /// written. Returns dx (T, H): in gradient's place for all tokens, in buffers.gradient for head rows.
  Tensor backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const;

 private:
  [[nodiscard]] const LayerLinears& linears(const Pass& pass) const { return pass.parameters.layer(layer_); }
  Tensor backward_all_tokens(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const;
  Tensor backward_head_rows(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const;

  std::size_t layer_;
  LayerRows rows_;
  std::int64_t hidden_;
  // All tokens:
  BufferId query_key_value_;  ///< (T, 3H)
  // Head rows:
  BufferId input_rows_;  ///< (R, H): x at the head rows
  BufferId query_;       ///< (R, H)
  BufferId key_value_;   ///< (T, 2H)
};

}  // namespace flashbert
