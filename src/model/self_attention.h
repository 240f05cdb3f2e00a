#pragma once

#include "model/query_key_value.h"
#include "model/sublayer_output.h"

namespace flashbert {

/// y = LayerNorm(x + dropout(W_o attention(W_q x, W_k x, W_v x) + b_o)), forward and backward, with its activations. Queries, and all that
/// follows, are computed for the layer's rows alone; keys and values always for all tokens.
class SelfAttention {
 public:
  SelfAttention(const ActivationPlan& plan, std::int64_t layer, LayerRows rows);
  /// x (T, H); rows: the layer's. Returns y (N, H).
  Tensor forward(const Pass& pass, ConstTensor x, const RowSet& rows) const;
  /// x, rows as in forward. gradient (N, H): in dy, scratch afterwards. Returns dx (T, H): in gradient's place
  /// for all tokens, in buffers.gradient for head rows.
  Tensor backward(const Pass& pass, ConstTensor x, Tensor gradient, const RowSet& rows, const BackwardBuffers& buffers) const;

 private:
  [[nodiscard]] AttentionInputs inputs(const Pass& pass, const RowSet& rows) const;
  [[nodiscard]] SublayerOutput::Weights output_weights(const Pass& pass) const;
  /// (N, H) as (N, A, D).
  [[nodiscard]] Tensor by_head(Tensor rows) const { return rows.split_columns(heads_, head_dim_); }

  std::size_t layer_;
  std::int64_t heads_, head_dim_;
  float attention_dropout_;
  QueryKeyValue query_key_value_;
  BufferId context_;       ///< (N, H): the values, weighted
  BufferId lse_;           ///< (A, N) f32
  BufferId keep_bits_;     ///< (N, A, keep_words(S)) u32
  SublayerOutput output_;  ///< W_o and b_o
};

}  // namespace flashbert
