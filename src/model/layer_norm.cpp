#include "model/layer_norm.h"

namespace flashbert {

LayerNorm::LayerNorm(const ActivationPlan& plan, std::int64_t max_rows, float dropout_rate)
    : z_(plan.matrix("layer_norm.z", max_rows, plan.config.hidden)),
      y_(plan.matrix("layer_norm.y", max_rows, plan.config.hidden)),
      mean_(plan.row_statistic("layer_norm.mean", max_rows)),
      rstd_(plan.row_statistic("layer_norm.rstd", max_rows)),
      keep_bits_(plan.keep_bits("layer_norm.keep_bits", max_rows, plan.config.hidden, dropout_rate)) {}

void LayerNorm::forward(const Pass& pass, const Forward& args) const {
  pass.ops.dropout_add_layer_norm_forward({.y = output(pass, args.rows),
                                           .z = input(pass, args.rows),
                                           .mean = pass.memory(mean_, args.rows),
                                           .rstd = pass.memory(rstd_, args.rows),
                                           .keep_bits = pass.keep_bits(keep_bits_, args.rows, args.dropout),
                                           .x = input(pass, args.rows),
                                           .residual = args.residual,
                                           .gamma = args.parameters.gamma,
                                           .beta = args.parameters.beta,
                                           .origin = args.origin,
                                           .dropout = args.dropout});
}

void LayerNorm::backward(const Pass& pass, const Backward& args) const {
  const std::int64_t rows = args.gradient.extent(0);
  pass.ops.dropout_add_layer_norm_backward({.dz = args.gradient,
                                            .dx = args.dx,
                                            .dgamma = args.parameters.dgamma,
                                            .dbeta = args.parameters.dbeta,
                                            .dy = args.gradient,
                                            .z = input(pass, rows),
                                            .mean = pass.memory(mean_, rows),
                                            .rstd = pass.memory(rstd_, rows),
                                            .gamma = args.parameters.gamma,
                                            .keep_bits = pass.keep_bits(keep_bits_, rows, args.dropout),
                                            .dropout = args.dropout,
                                            .accumulate = pass.accumulate});
}

}  // namespace flashbert
