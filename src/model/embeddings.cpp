#include "model/embeddings.h"

namespace flashbert {

Embeddings::Embeddings(const BertConfig& config, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan) : config_(config) {
  const std::int64_t rows = bucket_rows(capacity.tokens);
  z_id_ = plan.book("activations", "embeddings.z", compute, {rows, config.hidden});
  y_id_ = plan.book("activations", "embeddings.y", compute, {rows, config.hidden});
  mean_id_ = plan.book("activations", "embeddings.mean", Dtype::kF32, {rows});
  rstd_id_ = plan.book("activations", "embeddings.rstd", Dtype::kF32, {rows});
  if (config.hidden_dropout > 0.0F) {
    keep_id_ = plan.book("activations", "embeddings.keep_bits", Dtype::kU32, {rows, keep_words(config.hidden)});
  }
}

void Embeddings::bind(const Arena& arena) {
  z_ = arena.tensor(z_id_);
  y_ = arena.tensor(y_id_);
  mean_ = arena.tensor(mean_id_);
  rstd_ = arena.tensor(rstd_id_);
  if (keep_id_.index >= 0) keep_ = arena.tensor(keep_id_);
}

Tensor Embeddings::forward(const Pass& pass) {
  const ParameterTable& table = pass.parameters.table();
  const std::int64_t rows = pass.batch.tokens();
  const Dropout dropout = pass.dropout(config_.hidden_dropout, 0, DropoutSite::kEmbeddings);
  pass.ops.embeddings_forward({.y = y_.rows(0, rows),
                               .z = z_.rows(0, rows),
                               .mean = mean_.rows(0, rows),
                               .rstd = rstd_.rows(0, rows),
                               .keep_bits = dropout.active() ? keep_.rows(0, rows) : Tensor{},
                               .token_ids = pass.batch.token_ids,
                               .position_ids = pass.batch.positions,
                               .segment_ids = pass.batch.segment_ids,
                               .word = pass.parameters.compute(table.word),
                               .position = pass.parameters.compute(table.position),
                               .segment = pass.parameters.compute(table.segment),
                               .gamma = pass.parameters.master(table.embeddings_gamma),
                               .beta = pass.parameters.master(table.embeddings_beta),
                               .origin = {pass.batch.sequences, pass.batch.positions, pass.batch.sample_indices},
                               .dropout = dropout});
  return y_.rows(0, rows);
}

void Embeddings::backward(const Pass& pass, Tensor gradient) {
  const ParameterTable& table = pass.parameters.table();
  const std::int64_t rows = pass.batch.tokens();
  const Dropout dropout = pass.dropout(config_.hidden_dropout, 0, DropoutSite::kEmbeddings);
  const NormParameters norm = pass.norm(table.embeddings_gamma, table.embeddings_beta);
  pass.ops.embeddings_backward({.dz = gradient,
                                .dgamma = norm.dgamma,
                                .dbeta = norm.dbeta,
                                .dy = gradient,
                                .z = z_.rows(0, rows),
                                .mean = mean_.rows(0, rows),
                                .rstd = rstd_.rows(0, rows),
                                .gamma = norm.gamma,
                                .keep_bits = dropout.active() ? ConstTensor(keep_.rows(0, rows)) : ConstTensor{},
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
