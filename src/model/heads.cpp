#include "model/heads.h"

namespace flashbert {
namespace {

constexpr float kNeverDropped = 0.0F;

}  // namespace

Heads::Heads(const ActivationPlan& plan)
    : vocab_(plan.config.vocab),
      norm_(plan, plan.capacity.masked, kNeverDropped),
      mlm_input_(plan.matrix("heads.mlm_input", plan.capacity.masked, plan.config.hidden)),
      before_gelu_(plan.matrix("heads.before_gelu", plan.capacity.masked, plan.config.hidden)),
      logits_(plan.matrix("heads.logits", plan.capacity.masked, plan.config.padded_vocab())),
      mlm_gradient_(plan.matrix("heads.mlm_gradient", plan.capacity.masked, plan.config.hidden)),
      cls_input_(plan.matrix("heads.cls_input", plan.capacity.sequences, plan.config.hidden)),
      pooled_(plan.matrix("heads.pooled", plan.capacity.sequences, plan.config.hidden)),
      nsp_logits_(plan.matrix("heads.nsp_logits", plan.capacity.sequences, 2)),
      cls_gradient_(plan.matrix("heads.cls_gradient", plan.capacity.sequences, plan.config.hidden)) {}

void Heads::forward(const Pass& pass, ConstTensor x, const LossSums& sums) const {
  const Parameters& parameters = pass.parameters;
  const ParameterTable& table = parameters.table();
  const std::int64_t masked = pass.batch.masked();
  const std::int64_t sequences = pass.batch.sequence_rows();
  const auto gradient = pass.training ? SoftmaxCrossEntropy::Gradient::kInPlace : SoftmaxCrossEntropy::Gradient::kNone;

  pass.ops.gather_rows({.out = pass.memory(mlm_input_, masked), .in = x, .index = pass.batch.mlm_head_rows});
  pass.linear_gelu_forward(parameters.transform, norm_.input(pass, masked), pass.memory(mlm_input_, masked),
                           pass.memory(before_gelu_, masked));
  norm_.forward(pass, {.rows = masked, .parameters = pass.norm(table.transform_gamma, table.transform_beta)});
  pass.linear_forward(parameters.decoder, pass.memory(logits_, masked), norm_.output(pass, masked));
  pass.ops.softmax_cross_entropy({.logits = pass.memory(logits_, masked),
                                  .labels = pass.batch.mlm_labels,
                                  .scale = pass.batch.step_scalars.rows(kMlmScale, 1),
                                  .counters = sums.mlm,
                                  .classes = vocab_,
                                  .gradient = gradient});

  pass.ops.gather_rows({.out = pass.memory(cls_input_, sequences), .in = x, .index = pass.batch.cls_head_rows});
  pass.linear_forward(parameters.pooler, pass.memory(pooled_, sequences), pass.memory(cls_input_, sequences));
  pass.ops.tanh_forward({.y = pass.memory(pooled_, sequences), .x = pass.memory(pooled_, sequences)});
  pass.linear_forward(parameters.nsp, pass.memory(nsp_logits_, sequences), pass.memory(pooled_, sequences));
  pass.ops.softmax_cross_entropy({.logits = pass.memory(nsp_logits_, sequences),
                                  .labels = pass.batch.nsp_labels,
                                  .scale = pass.batch.step_scalars.rows(kNspScale, 1),
                                  .counters = sums.nsp,
                                  .classes = 2,
                                  .gradient = gradient});
}

void Heads::backward(const Pass& pass, Tensor dx) const {
  const Parameters& parameters = pass.parameters;
  const ParameterTable& table = parameters.table();
  const std::int64_t masked = pass.batch.masked();
  const std::int64_t sequences = pass.batch.sequence_rows();
  pass.ops.fill_zero(dx);

  const Tensor dlogits = pass.memory(logits_, masked);
  const Tensor dmlm = pass.memory(mlm_gradient_, masked);
  pass.linear_weight_gradient(parameters.decoder, dlogits,
                              norm_.output(pass, masked));  // the word table's gradient waits for the embeddings
  pass.ready(table.decoder_bias);
  pass.linear_input_gradient(parameters.decoder, dmlm, dlogits, Accumulate::kOverwrite);
  norm_.backward(pass, {.gradient = dmlm, .parameters = pass.norm(table.transform_gamma, table.transform_beta)});
  pass.ready(table.transform_gamma);
  pass.ready(table.transform_beta);
  pass.ops.gelu_backward({.dx = dmlm, .dy = dmlm, .x = pass.memory(before_gelu_, masked)});
  pass.linear_weight_gradient(parameters.transform, dmlm, pass.memory(mlm_input_, masked));
  pass.ready(table.transform_weight);
  pass.ready(table.transform_bias);
  // mlm_input has been read for the last time and takes the input gradient.
  pass.linear_input_gradient(parameters.transform, pass.memory(mlm_input_, masked), dmlm, Accumulate::kOverwrite);
  pass.ops.scatter_add_rows({.out = dx, .in = pass.memory(mlm_input_, masked), .index = pass.batch.mlm_head_rows});

  const Tensor dnsp = pass.memory(nsp_logits_, sequences);
  const Tensor dcls = pass.memory(cls_gradient_, sequences);
  pass.linear_weight_gradient(parameters.nsp, dnsp, pass.memory(pooled_, sequences));
  pass.ready(table.nsp_weight);
  pass.ready(table.nsp_bias);
  pass.linear_input_gradient(parameters.nsp, dcls, dnsp, Accumulate::kOverwrite);
  pass.ops.tanh_backward({.dx = dcls, .dy = dcls, .y = pass.memory(pooled_, sequences)});
  pass.linear_weight_gradient(parameters.pooler, dcls, pass.memory(cls_input_, sequences));
  pass.ready(table.pooler_weight);
  pass.ready(table.pooler_bias);
  pass.linear_input_gradient(parameters.pooler, pass.memory(cls_input_, sequences), dcls, Accumulate::kOverwrite);
  pass.ops.scatter_add_rows({.out = dx, .in = pass.memory(cls_input_, sequences), .index = pass.batch.cls_head_rows});
}

}  // namespace flashbert
