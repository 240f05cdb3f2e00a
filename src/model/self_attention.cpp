#include "model/self_attention.h"

#include <cmath>

namespace flashbert {

SelfAttention::SelfAttention(const BertConfig& config, std::int64_t layer, Rows rows, Dtype compute, const RowCapacity& capacity,
                             ArenaPlan& plan)
    : config_(config),
      layer_(layer),
      rows_(rows),
      word_columns_(keep_words(capacity.seq_len)),
      norm_(rows == Rows::kHeadRows ? capacity.head_rows() : capacity.tokens, config.hidden, compute, config.hidden_dropout > 0.0F, plan) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t tokens = bucket_rows(capacity.tokens);
  const std::int64_t queries = rows == Rows::kHeadRows ? bucket_rows(capacity.head_rows()) : tokens;
  if (rows == Rows::kHeadRows) {
    gathered_id_ = plan.book("activations", "attention.input_rows", compute, {queries, hidden});
    query_id_ = plan.book("activations", "attention.query", compute, {queries, hidden});
    qkv_id_ = plan.book("activations", "attention.key_value", compute, {tokens, 2 * hidden});
  } else {
    qkv_id_ = plan.book("activations", "attention.qkv", compute, {tokens, 3 * hidden});
  }
  context_id_ = plan.book("activations", "attention.context", compute, {queries, hidden});
  lse_id_ = plan.book("activations", "attention.lse", Dtype::kF32, {config.heads, queries});
  if (config.attention_dropout > 0.0F) {
    keep_id_ = plan.book("activations", "attention.keep_bits", Dtype::kU32, {queries, config.heads, word_columns_});
  }
}

void SelfAttention::bind(const Arena& arena) {
  qkv_ = arena.tensor(qkv_id_);
  context_ = arena.tensor(context_id_);
  lse_ = arena.tensor(lse_id_);
  if (rows_ == Rows::kHeadRows) {
    gathered_ = arena.tensor(gathered_id_);
    query_ = arena.tensor(query_id_);
  }
  if (keep_id_.index >= 0) keep_ = arena.tensor(keep_id_);
  norm_.bind(arena);
}

std::int64_t SelfAttention::query_rows(const Pass& pass) const {
  return rows_ == Rows::kHeadRows ? pass.batch.head_rows() : pass.batch.tokens();
}

AttentionInputs SelfAttention::inputs(const Pass& pass) const {
  const std::int64_t hidden = config_.hidden;
  const bool head_rows = rows_ == Rows::kHeadRows;
  const Tensor qkv = qkv_.rows(0, pass.batch.tokens());
  const auto heads = [&](Tensor t) { return t.split_columns(config_.heads, config_.head_dim()); };
  const std::int64_t first_key = head_rows ? 0 : hidden;
  return {.query = heads(head_rows ? query_.rows(0, query_rows(pass)) : qkv.columns(0, hidden)),
          .key = heads(qkv.columns(first_key, hidden)),
          .value = heads(qkv.columns(first_key + hidden, hidden)),
          .cu_queries = head_rows ? pass.batch.cu_head_rows : pass.batch.cu_tokens,
          .cu_keys = pass.batch.cu_tokens,
          .query_position = head_rows ? pass.batch.head_positions : pass.batch.positions,
          .sample_index = pass.batch.sample_indices,
          .scale = 1.0F / std::sqrt(static_cast<float>(config_.head_dim())),
          .dropout = pass.dropout(config_.attention_dropout, layer_, DropoutSite::kAttention)};
}

Tensor SelfAttention::forward(const Pass& pass, ConstTensor x) {
  const LayerLinears& linears = pass.parameters.layer(static_cast<std::size_t>(layer_));
  const LayerBlocks& blocks = pass.parameters.table().layers[static_cast<std::size_t>(layer_)];
  const std::int64_t rows = query_rows(pass);
  const bool head_rows = rows_ == Rows::kHeadRows;
  ConstTensor residual = x;
  if (head_rows) {
    pass.ops.gather_rows({.out = gathered_.rows(0, rows), .in = x, .index = pass.batch.head_token_rows});
    residual = gathered_.rows(0, rows);
    pass.forward(linears.query, query_.rows(0, rows), residual);
    pass.forward(linears.key_value, qkv_.rows(0, pass.batch.tokens()), x);
  } else {
    pass.forward(linears.qkv, qkv_.rows(0, rows), x);
  }
  const AttentionInputs attention = inputs(pass);
  pass.ops.attention_forward({.out = context_.rows(0, rows).split_columns(config_.heads, config_.head_dim()),
                              .lse = lse_.columns(0, rows),
                              .keep_bits = attention.dropout.active() ? keep_.rows(0, rows) : Tensor{},
                              .inputs = attention});
  pass.forward(linears.attention_output, norm_.branch(rows), context_.rows(0, rows));
  norm_.forward(pass.ops, {.residual = residual,
                           .parameters = pass.norm(blocks.attention_gamma, blocks.attention_beta),
                           .origin = {.sequence = head_rows ? pass.batch.head_sequences : pass.batch.sequences,
                                      .position = attention.query_position,
                                      .sample_index = pass.batch.sample_indices},
                           .dropout = pass.dropout(config_.hidden_dropout, layer_, DropoutSite::kAttentionOutput),
                           .rows = rows});
  return norm_.output(rows);
}

void SelfAttention::backward(const Pass& pass, ConstTensor x, Tensor gradient, Tensor dx, const BackwardBuffers& buffers) {
  const LayerLinears& linears = pass.parameters.layer(static_cast<std::size_t>(layer_));
  const LayerBlocks& blocks = pass.parameters.table().layers[static_cast<std::size_t>(layer_)];
  const std::int64_t rows = query_rows(pass);
  const std::int64_t tokens = pass.batch.tokens();
  const std::int64_t hidden = config_.hidden;
  const bool head_rows = rows_ == Rows::kHeadRows;
  const Tensor branch = buffers.branch.rows(0, rows);
  norm_.backward(pass.ops, {.gradient = gradient,
                            .branch_gradient = branch,
                            .parameters = pass.norm(blocks.attention_gamma, blocks.attention_beta),
                            .dropout = pass.dropout(config_.hidden_dropout, layer_, DropoutSite::kAttentionOutput),
                            .accumulate = pass.accumulate});
  pass.ready(blocks.attention_gamma);
  pass.ready(blocks.attention_beta);
  pass.weight_gradient(linears.attention_output, branch, context_.rows(0, rows));
  pass.ready(blocks.output_weight);
  pass.ready(blocks.output_bias);
  const Tensor dcontext = buffers.context.rows(0, rows);
  pass.input_gradient(linears.attention_output, dcontext, branch, Accumulate::kOverwrite);

  const auto heads = [&](Tensor t) { return t.split_columns(config_.heads, config_.head_dim()); };
  // Head rows: the query gradient has its own rows and takes the branch's place, which is no longer read.
  const Tensor dqkv = buffers.qkv.rows(0, tokens);
  const std::int64_t first_key = head_rows ? 0 : hidden;
  const Tensor dquery = head_rows ? branch : dqkv.columns(0, hidden);
  const AttentionInputs attention = inputs(pass);
  pass.ops.attention_backward({.dquery = heads(dquery),
                               .dkey = heads(dqkv.columns(first_key, hidden)),
                               .dvalue = heads(dqkv.columns(first_key + hidden, hidden)),
                               .dout = heads(dcontext),
                               .out = context_.rows(0, rows).split_columns(config_.heads, config_.head_dim()),
                               .lse = lse_.columns(0, rows),
                               .keep_bits = attention.dropout.active() ? ConstTensor(keep_.rows(0, rows)) : ConstTensor{},
                               .inputs = attention});
  if (head_rows) {
    const Tensor dkey_value = dqkv.columns(0, 2 * hidden);
    pass.weight_gradient(linears.query, dquery, gathered_.rows(0, rows));
    pass.weight_gradient(linears.key_value, dkey_value, x);
    pass.input_gradient(linears.key_value, dx, dkey_value, Accumulate::kOverwrite);
    pass.input_gradient(linears.query, gradient, dquery, Accumulate::kAdd);
    pass.ops.scatter_add_rows({.out = dx, .in = gradient, .index = pass.batch.head_token_rows});
  } else {
    pass.weight_gradient(linears.qkv, dqkv, x);
    pass.input_gradient(linears.qkv, dx, dqkv, Accumulate::kAdd);
  }
  pass.ready(blocks.qkv_weight);
  pass.ready(blocks.qkv_bias);
}

}  // namespace flashbert
