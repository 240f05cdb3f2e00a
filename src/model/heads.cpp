#include "model/heads.h"

namespace flashbert {

Heads::Heads(const BertConfig& config, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan)
    : config_(config), norm_(capacity.masked, config.hidden, compute, /*dropout=*/false, plan) {
  const std::int64_t masked = bucket_rows(capacity.masked);
  const std::int64_t sequences = bucket_rows(capacity.sequences);
  const std::int64_t hidden = config.hidden;
  const auto book = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return plan.book("activations", name, compute, {rows, columns});
  };
  mlm_input_id_ = book("heads.mlm_input", masked, hidden);
  before_gelu_id_ = book("heads.before_gelu", masked, hidden);
  logits_id_ = book("heads.logits", masked, config.padded_vocab());
  mlm_gradient_id_ = book("heads.mlm_gradient", masked, hidden);
  cls_input_id_ = book("heads.cls_input", sequences, hidden);
  pooled_id_ = book("heads.pooled", sequences, hidden);
  nsp_logits_id_ = book("heads.nsp_logits", sequences, 2);
  cls_gradient_id_ = book("heads.cls_gradient", sequences, hidden);
}

void Heads::bind(const Arena& arena) {
  mlm_input_ = arena.tensor(mlm_input_id_);
  before_gelu_ = arena.tensor(before_gelu_id_);
  logits_ = arena.tensor(logits_id_);
  mlm_gradient_ = arena.tensor(mlm_gradient_id_);
  cls_input_ = arena.tensor(cls_input_id_);
  pooled_ = arena.tensor(pooled_id_);
  nsp_logits_ = arena.tensor(nsp_logits_id_);
  cls_gradient_ = arena.tensor(cls_gradient_id_);
  norm_.bind(arena);
}

void Heads::forward(const Pass& pass, ConstTensor x, const LossSums& sums) {
  const Parameters& parameters = pass.parameters;
  const ParameterTable& table = parameters.table();
  const std::int64_t masked = pass.batch.masked();
  const std::int64_t sequences = pass.batch.sequence_rows();
  const auto gradient = pass.training ? SoftmaxCrossEntropy::Gradient::kInPlace : SoftmaxCrossEntropy::Gradient::kNone;

  pass.ops.gather_rows({.out = mlm_input_.rows(0, masked), .in = x, .index = pass.batch.mlm_head_rows});
  pass.forward(parameters.transform, before_gelu_.rows(0, masked), mlm_input_.rows(0, masked));
  pass.ops.gelu_forward({.y = norm_.branch(masked), .x = before_gelu_.rows(0, masked)});
  norm_.forward(
      pass.ops,
      {.residual = {}, .parameters = pass.norm(table.transform_gamma, table.transform_beta), .origin = {}, .dropout = {}, .rows = masked});
  pass.forward(parameters.decoder, logits_.rows(0, masked), norm_.output(masked));
  pass.ops.softmax_cross_entropy({.logits = logits_.rows(0, masked),
                                  .labels = pass.batch.mlm_labels,
                                  .scale = pass.batch.step_scalars.rows(kMlmScale, 1),
                                  .counters = sums.mlm,
                                  .classes = config_.vocab,
                                  .gradient = gradient});

  pass.ops.gather_rows({.out = cls_input_.rows(0, sequences), .in = x, .index = pass.batch.cls_head_rows});
  pass.forward(parameters.pooler, pooled_.rows(0, sequences), cls_input_.rows(0, sequences));
  pass.ops.tanh_forward({.y = pooled_.rows(0, sequences), .x = pooled_.rows(0, sequences)});
  pass.forward(parameters.nsp, nsp_logits_.rows(0, sequences), pooled_.rows(0, sequences));
  pass.ops.softmax_cross_entropy({.logits = nsp_logits_.rows(0, sequences),
                                  .labels = pass.batch.nsp_labels,
                                  .scale = pass.batch.step_scalars.rows(kNspScale, 1),
                                  .counters = sums.nsp,
                                  .classes = 2,
                                  .gradient = gradient});
}

void Heads::backward(const Pass& pass, Tensor dx) {
  const Parameters& parameters = pass.parameters;
  const ParameterTable& table = parameters.table();
  const std::int64_t masked = pass.batch.masked();
  const std::int64_t sequences = pass.batch.sequence_rows();
  pass.ops.fill_zero(dx);

  const Tensor dlogits = logits_.rows(0, masked);
  const Tensor dmlm = mlm_gradient_.rows(0, masked);
  pass.weight_gradient(parameters.decoder, dlogits, norm_.output(masked));  // the word table's gradient waits for the embeddings
  pass.ready(table.decoder_bias);
  pass.input_gradient(parameters.decoder, dmlm, dlogits, Accumulate::kOverwrite);
  norm_.backward(pass.ops, {.gradient = dmlm,
                            .branch_gradient = {},
                            .parameters = pass.norm(table.transform_gamma, table.transform_beta),
                            .dropout = {},
                            .accumulate = pass.accumulate});
  pass.ready(table.transform_gamma);
  pass.ready(table.transform_beta);
  pass.ops.gelu_backward({.dx = dmlm, .dy = dmlm, .x = before_gelu_.rows(0, masked)});
  pass.weight_gradient(parameters.transform, dmlm, mlm_input_.rows(0, masked));
  pass.ready(table.transform_weight);
  pass.ready(table.transform_bias);
  // mlm_input has been read for the last time and takes the input gradient.
  pass.input_gradient(parameters.transform, mlm_input_.rows(0, masked), dmlm, Accumulate::kOverwrite);
  pass.ops.scatter_add_rows({.out = dx, .in = mlm_input_.rows(0, masked), .index = pass.batch.mlm_head_rows});

  const Tensor dnsp = nsp_logits_.rows(0, sequences);
  const Tensor dcls = cls_gradient_.rows(0, sequences);
  pass.weight_gradient(parameters.nsp, dnsp, pooled_.rows(0, sequences));
  pass.ready(table.nsp_weight);
  pass.ready(table.nsp_bias);
  pass.input_gradient(parameters.nsp, dcls, dnsp, Accumulate::kOverwrite);
  pass.ops.tanh_backward({.dx = dcls, .dy = dcls, .y = pooled_.rows(0, sequences)});
  pass.weight_gradient(parameters.pooler, dcls, cls_input_.rows(0, sequences));
  pass.ready(table.pooler_weight);
  pass.ready(table.pooler_bias);
  pass.input_gradient(parameters.pooler, cls_input_.rows(0, sequences), dcls, Accumulate::kOverwrite);
  pass.ops.scatter_add_rows({.out = dx, .in = cls_input_.rows(0, sequences), .index = pass.batch.cls_head_rows});
}

}  // namespace flashbert
