#include "model/self_attention.h"

#include <cmath>

namespace flashbert {

SelfAttention::SelfAttention(const ActivationPlan& plan, std::int64_t layer, LayerRows rows)
    : layer_(static_cast<std::size_t>(layer)),
      heads_(plan.config.heads),
      head_dim_(plan.config.head_dim()),
      attention_dropout_(plan.config.attention_dropout),
      query_key_value_(plan, layer, rows),
      context_(plan.matrix("attention.context", plan.capacity.rows(rows), plan.config.hidden)),
      output_(plan, plan.capacity.rows(rows), layer, DropoutSite::kAttentionOutput) {
  const std::int64_t most = bucket_rows(plan.capacity.rows(rows));
  lse_ = plan.arena.book("activations", "attention.lse", Dtype::kF32, {heads_, most});
  if (attention_dropout_ > 0.0F) {
    keep_bits_ = plan.arena.book("activations", "attention.keep_bits", Dtype::kU32, {most, heads_, keep_words(plan.capacity.seq_len)});
  }
}

SublayerOutput::Weights SelfAttention::output_weights(const Pass& pass) const {
  const LayerBlocks& block = pass.parameters.table().layers[layer_];
  return {.linear = pass.parameters.layer(layer_).attention_output,
          .weight = block.output_weight,
          .bias = block.output_bias,
          .gamma = block.attention_gamma,
          .beta = block.attention_beta};
}

AttentionInputs SelfAttention::inputs(const Pass& pass, const RowSet& rows) const {
  const QueryKeyValue::Views made = query_key_value_.views(pass);
  return {.query = by_head(made.query),
          .key = by_head(made.key),
          .value = by_head(made.value),
          .cu_queries = rows.cu,
          .cu_keys = pass.batch.tokens.cu,
          .query_position = rows.position,
          .sample_index = pass.batch.sample_indices,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim_)),
          .dropout = pass.dropout(attention_dropout_, static_cast<std::int64_t>(layer_), DropoutSite::kAttention)};
}

Tensor SelfAttention::forward(const Pass& pass, ConstTensor x, const RowSet& rows) const {
  const ConstTensor residual = query_key_value_.forward(pass, x);
  const Tensor context = pass.memory(context_, rows.count());
  const AttentionInputs attention = inputs(pass, rows);
  pass.ops.attention_forward({.out = by_head(context),
                              .lse = pass.memory(lse_).columns(0, rows.count()),
                              .keep_bits = pass.keep_bits(keep_bits_, rows.count(), attention.dropout),
                              .inputs = attention});
  return output_.forward(pass, output_weights(pass), residual, context, rows);
}

Tensor SelfAttention::backward(const Pass& pass, ConstTensor x, Tensor gradient, const RowSet& rows, const BackwardBuffers& buffers) const {
  const Tensor context = pass.memory(context_, rows.count());
  const Tensor dcontext = pass.memory(buffers.context, rows.count());
  const SublayerOutput::Weights weights = output_weights(pass);
  const Tensor branch = output_.backward(pass, weights, gradient, context, buffers);
  pass.linear_input_gradient(weights.linear, dcontext, branch, Accumulate::kOverwrite);

  const QueryKeyValue::Views gradients = query_key_value_.gradient_views(pass, buffers);
  const AttentionInputs attention = inputs(pass, rows);
  pass.ops.attention_backward({.dquery = by_head(gradients.query),
                               .dkey = by_head(gradients.key),
                               .dvalue = by_head(gradients.value),
                               .dout = by_head(dcontext),
                               .out = by_head(context),
                               .lse = pass.memory(lse_).columns(0, rows.count()),
                               .keep_bits = pass.keep_bits(keep_bits_, rows.count(), attention.dropout),
                               .inputs = attention});
  return query_key_value_.backward(pass, x, gradient, buffers);
}

}  // namespace flashbert
