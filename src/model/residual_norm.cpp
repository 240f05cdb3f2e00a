#include "model/residual_norm.h"

namespace flashbert {

ResidualNorm::ResidualNorm(std::int64_t max_rows, std::int64_t hidden, Dtype compute, bool dropout, ArenaPlan& plan) {
  const std::int64_t rows = bucket_rows(max_rows);
  z_id_ = plan.book("activations", "residual_norm.z", compute, {rows, hidden});
  y_id_ = plan.book("activations", "residual_norm.y", compute, {rows, hidden});
  mean_id_ = plan.book("activations", "residual_norm.mean", Dtype::kF32, {rows});
  rstd_id_ = plan.book("activations", "residual_norm.rstd", Dtype::kF32, {rows});
  if (dropout) keep_id_ = plan.book("activations", "residual_norm.keep_bits", Dtype::kU32, {rows, keep_words(hidden)});
}

void ResidualNorm::bind(const Arena& arena) {
  z_ = arena.tensor(z_id_);
  y_ = arena.tensor(y_id_);
  mean_ = arena.tensor(mean_id_);
  rstd_ = arena.tensor(rstd_id_);
  if (keep_id_.index >= 0) keep_ = arena.tensor(keep_id_);
}

void ResidualNorm::forward(Ops& ops, const Forward& args) const {
  ops.dropout_add_layer_norm_forward({.y = output(args.rows),
                                      .z = branch(args.rows),
                                      .mean = mean_.rows(0, args.rows),
                                      .rstd = rstd_.rows(0, args.rows),
                                      .keep_bits = args.dropout.active() ? keep_.rows(0, args.rows) : Tensor{},
                                      .x = branch(args.rows),
                                      .residual = args.residual,
                                      .gamma = args.parameters.gamma,
                                      .beta = args.parameters.beta,
                                      .origin = args.origin,
                                      .dropout = args.dropout});
}

void ResidualNorm::backward(Ops& ops, const Backward& args) const {
  const std::int64_t rows = args.gradient.extent(0);
  ops.dropout_add_layer_norm_backward({.dz = args.gradient,
                                       .dx = args.branch_gradient,
                                       .dgamma = args.parameters.dgamma,
                                       .dbeta = args.parameters.dbeta,
                                       .dy = args.gradient,
                                       .z = branch(rows),
                                       .mean = mean_.rows(0, rows),
                                       .rstd = rstd_.rows(0, rows),
                                       .gamma = args.parameters.gamma,
                                       .keep_bits = args.dropout.active() ? ConstTensor(keep_.rows(0, rows)) : ConstTensor{},
                                       .dropout = args.dropout,
                                       .accumulate = args.accumulate});
}

}  // namespace flashbert
