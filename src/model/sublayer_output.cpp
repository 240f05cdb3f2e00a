#include "model/sublayer_output.h"

namespace flashbert {

SublayerOutput::SublayerOutput(const ActivationPlan& plan, std::int64_t max_rows, std::int64_t layer, DropoutSite site)
    : rate_(plan.config.hidden_dropout), layer_(layer), site_(site), norm_(plan, max_rows, rate_) {}

Tensor SublayerOutput::forward(const Pass& pass, const Weights& weights, ConstTensor x, ConstTensor h, const RowSet& rows) const {
  pass.linear_forward(weights.linear, norm_.input(pass, rows.count()), h);
  norm_.forward(pass, {.rows = rows.count(),
                       .parameters = pass.norm(weights.gamma, weights.beta),
                       .residual = x,
                       .origin = pass.batch.origin(rows),
                       .dropout = dropout(pass)});
  return norm_.output(pass, rows.count());
}

Tensor SublayerOutput::backward(const Pass& pass, const Weights& weights, Tensor gradient, ConstTensor h,
                                const BackwardBuffers& buffers) const {
  const Tensor branch = pass.memory(buffers.branch, gradient.extent(0));
  norm_.backward(pass,
                 {.gradient = gradient, .dx = branch, .parameters = pass.norm(weights.gamma, weights.beta), .dropout = dropout(pass)});
  pass.ready(weights.gamma);
  pass.ready(weights.beta);
  pass.linear_weight_gradient(weights.linear, branch, h);
  pass.ready(weights.weight);
  pass.ready(weights.bias);
  return branch;
}

}  // namespace flashbert
