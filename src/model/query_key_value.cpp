#include "model/query_key_value.h"

namespace flashbert {

QueryKeyValue::QueryKeyValue(const ActivationPlan& plan, std::int64_t layer, LayerRows rows)
    : layer_(static_cast<std::size_t>(layer)), rows_(rows), hidden_(plan.config.hidden) {
  if (rows == LayerRows::kAllTokens) {
    query_key_value_ = plan.matrix("attention.query_key_value", plan.capacity.tokens, 3 * hidden_);
    return;
  }
  input_rows_ = plan.matrix("attention.input_rows", plan.capacity.rows(rows), hidden_);
  query_ = plan.matrix("attention.query", plan.capacity.rows(rows), hidden_);
  key_value_ = plan.matrix("attention.key_value", plan.capacity.tokens, 2 * hidden_);
}

QueryKeyValue::Views QueryKeyValue::views(const Pass& pass) const {
  if (rows_ == LayerRows::kAllTokens) {
    const Tensor all = pass.memory(query_key_value_, pass.batch.tokens.count());
    return {.query = all.columns(0, hidden_), .key = all.columns(hidden_, hidden_), .value = all.columns(2 * hidden_, hidden_)};
  }
  const Tensor key_value = pass.memory(key_value_, pass.batch.tokens.count());
  return {.query = pass.memory(query_, pass.batch.head_rows.count()),
          .key = key_value.columns(0, hidden_),
          .value = key_value.columns(hidden_, hidden_)};
}

QueryKeyValue::Views QueryKeyValue::gradient_views(const Pass& pass, const BackwardBuffers& buffers) const {
  const Tensor all = pass.memory(buffers.query_key_value, pass.batch.tokens.count());
  if (rows_ == LayerRows::kAllTokens) {
    return {.query = all.columns(0, hidden_), .key = all.columns(hidden_, hidden_), .value = all.columns(2 * hidden_, hidden_)};
  }
  // The sublayer's output is done with by now, so its gradient's place is free.
  return {.query = pass.memory(buffers.branch, pass.batch.head_rows.count()),
          .key = all.columns(0, hidden_),
          .value = all.columns(hidden_, hidden_)};
}

ConstTensor QueryKeyValue::forward(const Pass& pass, ConstTensor x) const {
  const LayerLinears& linear = linears(pass);
  if (rows_ == LayerRows::kAllTokens) {
    pass.linear_forward(linear.qkv, pass.memory(query_key_value_, pass.batch.tokens.count()), x);
    return x;
  }
  const RowSet& rows = pass.batch.head_rows;
  const Tensor input_rows = pass.memory(input_rows_, rows.count());
  pass.ops.gather_rows({.out = input_rows, .in = x, .index = rows.token_row});
  pass.linear_forward(linear.query, pass.memory(query_, rows.count()), input_rows);
  pass.linear_forward(linear.key_value, pass.memory(key_value_, pass.batch.tokens.count()), x);
  return input_rows;
}

Tensor QueryKeyValue::backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const {
  const Tensor dx =
      rows_ == LayerRows::kAllTokens ? backward_all_tokens(pass, x, gradient, buffers) : backward_head_rows(pass, x, gradient, buffers);
  const LayerBlocks& blocks = pass.parameters.table().layers[layer_];
  pass.ready(blocks.qkv_weight);
  pass.ready(blocks.qkv_bias);
  return dx;
}

Tensor QueryKeyValue::backward_all_tokens(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const {
  const LinearLayer& linear = linears(pass).qkv;
  const Tensor dquery_key_value = pass.memory(buffers.query_key_value, pass.batch.tokens.count());
  pass.linear_weight_gradient(linear, dquery_key_value, x);
  pass.linear_input_gradient(linear, gradient, dquery_key_value, Accumulate::kAdd);
  return gradient;
}

Tensor QueryKeyValue::backward_head_rows(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const {
  const LayerLinears& linear = linears(pass);
  const RowSet& rows = pass.batch.head_rows;
  const Tensor dquery = gradient_views(pass, buffers).query;
  const Tensor dkey_value = pass.memory(buffers.query_key_value, pass.batch.tokens.count()).columns(0, 2 * hidden_);
  const Tensor dx = pass.memory(buffers.gradient, pass.batch.tokens.count());
  pass.linear_weight_gradient(linear.query, dquery, pass.memory(input_rows_, rows.count()));
  pass.linear_weight_gradient(linear.key_value, dkey_value, x);
  pass.linear_input_gradient(linear.key_value, dx, dkey_value, Accumulate::kOverwrite);
  pass.linear_input_gradient(linear.query, gradient, dquery, Accumulate::kAdd);
  pass.ops.scatter_add_rows({.out = dx, .in = gradient, .index = rows.token_row});
  return dx;
}

}  // namespace flashbert
