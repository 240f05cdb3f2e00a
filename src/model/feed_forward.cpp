#include "model/feed_forward.h"

namespace flashbert {

FeedForward::FeedForward(const ActivationPlan& plan, std::int64_t layer, LayerRows rows)
    : layer_(static_cast<std::size_t>(layer)),
      before_gelu_(plan.matrix("feed_forward.before_gelu", plan.capacity.rows(rows), plan.config.intermediate)),
      after_gelu_(plan.matrix("feed_forward.after_gelu", plan.capacity.rows(rows), plan.config.intermediate)),
      output_(plan, plan.capacity.rows(rows), layer, DropoutSite::kFeedForwardOutput) {}

SublayerOutput::Weights FeedForward::output_weights(const Pass& pass) const {
  const LayerBlocks& block = blocks(pass);
  return {.linear = linears(pass).down,
          .weight = block.down_weight,
          .bias = block.down_bias,
          .gamma = block.output_gamma,
          .beta = block.output_beta};
}

Tensor FeedForward::forward(const Pass& pass, ConstTensor x, const RowSet& rows) const {
  const Tensor after_gelu = pass.memory(after_gelu_, rows.count());
  pass.linear_gelu_forward(linears(pass).up, after_gelu, x, pass.memory(before_gelu_, rows.count()));
  return output_.forward(pass, output_weights(pass), x, after_gelu, rows);
}

void FeedForward::backward(const Pass& pass, ConstTensor x, Tensor gradient, const BackwardBuffers& buffers) const {
  const std::int64_t rows = x.extent(0);
  const Tensor inner = pass.memory(buffers.intermediate, rows);
  const Tensor branch = output_.backward(pass, output_weights(pass), gradient, pass.memory(after_gelu_, rows), buffers);
  pass.linear_gelu_input_gradient(linears(pass).down, inner, branch, pass.memory(before_gelu_, rows), linears(pass).up);
  pass.linear_weight_only_gradient(linears(pass).up, inner, x);
  pass.ready(blocks(pass).up_weight);
  pass.ready(blocks(pass).up_bias);
  // The gradient that went past the sublayer is there already.
  pass.linear_input_gradient(linears(pass).up, gradient, inner, Accumulate::kAdd);
}

}  // namespace flashbert
