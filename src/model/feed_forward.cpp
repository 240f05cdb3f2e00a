#include "model/feed_forward.h"

namespace flashbert {

FeedForward::FeedForward(const BertConfig& config, std::int64_t layer, std::int64_t max_rows, Dtype compute, ArenaPlan& plan)
    : config_(config), layer_(layer), norm_(max_rows, config.hidden, compute, config.hidden_dropout > 0.0F, plan) {
  const std::int64_t rows = bucket_rows(max_rows);
  before_gelu_id_ = plan.book("activations", "feed_forward.before_gelu", compute, {rows, config.intermediate});
  after_gelu_id_ = plan.book("activations", "feed_forward.after_gelu", compute, {rows, config.intermediate});
}

void FeedForward::bind(const Arena& arena) {
  before_gelu_ = arena.tensor(before_gelu_id_);
  after_gelu_ = arena.tensor(after_gelu_id_);
  norm_.bind(arena);
}

Tensor FeedForward::forward(const Pass& pass, ConstTensor x, const RowOrigin& origin) {
  const LayerLinears& linears = pass.parameters.layer(static_cast<std::size_t>(layer_));
  const LayerBlocks& blocks = pass.parameters.table().layers[static_cast<std::size_t>(layer_)];
  const std::int64_t rows = x.extent(0);
  pass.forward(linears.up, before_gelu_.rows(0, rows), x);
  pass.ops.gelu_forward({.y = after_gelu_.rows(0, rows), .x = before_gelu_.rows(0, rows)});
  pass.forward(linears.down, norm_.branch(rows), after_gelu_.rows(0, rows));
  norm_.forward(pass.ops, {.residual = x,
                           .parameters = pass.norm(blocks.output_gamma, blocks.output_beta),
                           .origin = origin,
                           .dropout = pass.dropout(config_.hidden_dropout, layer_, DropoutSite::kFeedForwardOutput),
                           .rows = rows});
  return norm_.output(rows);
}

void FeedForward::backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) {
  const LayerLinears& linears = pass.parameters.layer(static_cast<std::size_t>(layer_));
  const LayerBlocks& blocks = pass.parameters.table().layers[static_cast<std::size_t>(layer_)];
  const std::int64_t rows = x.extent(0);
  const Tensor branch = buffers.branch.rows(0, rows);
  const Tensor inner = buffers.intermediate.rows(0, rows);
  norm_.backward(pass.ops, {.gradient = gradient,
                            .branch_gradient = branch,
                            .parameters = pass.norm(blocks.output_gamma, blocks.output_beta),
                            .dropout = pass.dropout(config_.hidden_dropout, layer_, DropoutSite::kFeedForwardOutput),
                            .accumulate = pass.accumulate});
  pass.ready(blocks.output_gamma);
  pass.ready(blocks.output_beta);
  pass.weight_gradient(linears.down, branch, after_gelu_.rows(0, rows));
  pass.ready(blocks.down_weight);
  pass.ready(blocks.down_bias);
  pass.input_gradient(linears.down, inner, branch, Accumulate::kOverwrite);
  pass.ops.gelu_backward({.dx = inner, .dy = inner, .x = before_gelu_.rows(0, rows)});
  pass.weight_gradient(linears.up, inner, x);
  pass.ready(blocks.up_weight);
  pass.ready(blocks.up_bias);
  pass.input_gradient(linears.up, gradient, inner, Accumulate::kAdd);
}

}  // namespace flashbert
