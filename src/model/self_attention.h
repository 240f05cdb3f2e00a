#pragma once

#include "model/pass.h"

namespace flashbert {

/// y = LayerNorm(x + dropout(W_o attention(W_q x, W_k x, W_v x) + b_o)), forward and backward, with its activations.
/// The last layer of the encoder computes queries (and all that follows) for head rows only; keys and values always for all tokens.
class SelfAttention {
 public:
  enum class Rows { kAllTokens, kHeadRows };
  SelfAttention(const BertConfig& config, std::int64_t layer, Rows rows, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan);
  void bind(const Arena& arena);

  /// x (T, H); returns y: (T, H), or (R, H) for head rows.
  Tensor forward(const Pass& pass, ConstTensor x);
  /// gradient: in dy, scratch afterwards. All tokens: dx must be `gradient` itself, which holds the residual's part and is added to. Head
  /// rows: dx (T, H) is written.
  void backward(const Pass& pass, ConstTensor x, Tensor gradient, Tensor dx, const BackwardBuffers& buffers);

 private:
  [[nodiscard]] AttentionInputs inputs(const Pass& pass) const;
  [[nodiscard]] std::int64_t query_rows(const Pass& pass) const;

  BertConfig config_;
  std::int64_t layer_;
  Rows rows_;
  std::int64_t word_columns_;
  BufferId qkv_id_, query_id_, context_id_, lse_id_, keep_id_, gathered_id_;
  Tensor qkv_, query_, context_, lse_, keep_, gathered_;
  ResidualNorm norm_;
};

}  // namespace flashbert
