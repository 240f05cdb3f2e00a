#include "model/embeddings.h"

namespace flashbert {

Embeddings::Embeddings(const ActivationPlan& plan)
    : config_(plan.config),
      z_(plan.matrix("embeddings.z", plan.capacity.tokens, config_.hidden)),
      y_(plan.matrix("embeddings.y", plan.capacity.tokens, config_.hidden)),
      mean_(plan.row_statistic("embeddings.mean", plan.capacity.tokens)),
      rstd_(plan.row_statistic("embeddings.rstd", plan.capacity.tokens)),
      keep_bits_(plan.keep_bits("embeddings.keep_bits", plan.capacity.tokens, config_.hidden, config_.hidden_dropout)) {}

Tensor Embeddings::forward(const Pass& pass) const {
  const ParameterTable& table = pass.parameters.table();
  const std::int64_t rows = pass.batch.tokens.count();
  const Dropout dropout = pass.dropout(config_.hidden_dropout, 0, DropoutSite::kEmbeddings);
  pass.ops.embeddings_forward({.y = pass.memory(y_, rows),
                               .z = pass.memory(z_, rows),
                               .mean = pass.memory(mean_, rows),
                               .rstd = pass.memory(rstd_, rows),
                               .keep_bits = pass.keep_bits(keep_bits_, rows, dropout),
                               .token_ids = pass.batch.token_ids,
                               .position_ids = pass.batch.tokens.position,
                               .segment_ids = pass.batch.segment_ids,
                               .word = pass.parameters.compute(table.word),
                               .position = pass.parameters.compute(table.position),
                               .segment = pass.parameters.compute(table.segment),
                               .gamma = pass.parameters.master(table.embeddings_gamma),
                               .beta = pass.parameters.master(table.embeddings_beta),
                               .origin = pass.batch.origin(pass.batch.tokens),
                               .dropout = dropout});
  return pass.memory(y_, rows);
}

void Embeddings::backward(const Pass& pass, Tensor gradient) const {
  const ParameterTable& table = pass.parameters.table();
  const std::int64_t rows = pass.batch.tokens.count();
  const Dropout dropout = pass.dropout(config_.hidden_dropout, 0, DropoutSite::kEmbeddings);
  const NormParameters norm = pass.norm(table.embeddings_gamma, table.embeddings_beta);
  pass.ops.embeddings_backward({.dz = gradient,
                                .dgamma = norm.dgamma,
                                .dbeta = norm.dbeta,
                                .dy = gradient,
                                .z = pass.memory(z_, rows),
                                .mean = pass.memory(mean_, rows),
                                .rstd = pass.memory(rstd_, rows),
                                .gamma = norm.gamma,
                                .keep_bits = pass.keep_bits(keep_bits_, rows, dropout),
                                .dropout = dropout,
                                .accumulate = pass.accumulate});
  pass.ready(table.embeddings_gamma);
  pass.ready(table.embeddings_beta);
  const auto add = [&](std::size_t block, const RunsView& runs) {
    pass.ops.embedding_gradient(
        {.dtable = pass.gradient(block), .dz = gradient, .order = runs.order, .starts = runs.starts, .ids = runs.ids, .runs = runs.runs});
    pass.ready(block);
  };
  if (pass.accumulate == Accumulate::kOverwrite) {
    pass.ops.fill_zero(pass.gradient(table.segment));
    pass.ops.fill_zero(pass.gradient(table.position));
  }
  add(table.segment, pass.batch.segment_runs);
  add(table.position, pass.batch.position_runs);
  add(table.word, pass.batch.word_runs);
}

}  // namespace flashbert
