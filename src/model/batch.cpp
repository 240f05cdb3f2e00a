#include "model/batch.h"

#include <algorithm>

namespace flashbert {

BatchBuffers::BatchBuffers(const RowCapacity& rows, std::int64_t vocab, std::int64_t max_positions, std::int64_t type_vocab,
                           ArenaPlan& plan)
    : rows_(rows) {
  const auto book = [&](const char* name, std::int64_t count, Dtype dtype = Dtype::kI32) {
    return plan.book("batch", name, dtype, {count});
  };
  const std::int64_t tokens = bucket_rows(rows.tokens);
  const std::int64_t head_rows = bucket_rows(rows.head_rows());
  const std::int64_t masked = bucket_rows(rows.masked);
  const std::int64_t sequence_rows = bucket_rows(rows.sequences);
  const auto book_runs = [&](const char* name, std::int64_t entries) {
    const std::int64_t most = std::min(tokens, entries);
    return RunsIds{book(name, tokens), book(name, most + 1), book(name, most), book(name, 1)};
  };
  token_ids_ = book("token_ids", tokens);
  segment_ids_ = book("segment_ids", tokens);
  positions_ = book("positions", tokens);
  sequences_ = book("sequences", tokens);
  cu_tokens_ = book("cu_tokens", rows.sequences + 1);
  sample_indices_ = book("sample_indices", rows.sequences, Dtype::kU64);
  head_token_rows_ = book("head_token_rows", head_rows);
  head_positions_ = book("head_positions", head_rows);
  head_sequences_ = book("head_sequences", head_rows);
  cu_head_rows_ = book("cu_head_rows", rows.sequences + 1);
  mlm_head_rows_ = book("mlm_head_rows", masked);
  mlm_labels_ = book("mlm_labels", masked);
  cls_head_rows_ = book("cls_head_rows", sequence_rows);
  nsp_labels_ = book("nsp_labels", sequence_rows);
  word_runs_ = book_runs("word_runs", vocab);
  position_runs_ = book_runs("position_runs", max_positions);
  segment_runs_ = book_runs("segment_runs", type_vocab);
  step_scalars_ = book("step_scalars", kStepScalars, Dtype::kF32);
}

void BatchBuffers::bind(const Arena& arena) {
  const auto runs = [&](const RunsIds& ids) {
    return Runs{arena.tensor(ids.order), arena.tensor(ids.starts), arena.tensor(ids.ids), arena.tensor(ids.runs)};
  };
  token_ids = arena.tensor(token_ids_);
  segment_ids = arena.tensor(segment_ids_);
  positions = arena.tensor(positions_);
  sequences = arena.tensor(sequences_);
  cu_tokens = arena.tensor(cu_tokens_);
  sample_indices = arena.tensor(sample_indices_);
  head_token_rows = arena.tensor(head_token_rows_);
  head_positions = arena.tensor(head_positions_);
  head_sequences = arena.tensor(head_sequences_);
  cu_head_rows = arena.tensor(cu_head_rows_);
  mlm_head_rows = arena.tensor(mlm_head_rows_);
  mlm_labels = arena.tensor(mlm_labels_);
  cls_head_rows = arena.tensor(cls_head_rows_);
  nsp_labels = arena.tensor(nsp_labels_);
  word_runs = runs(word_runs_);
  position_runs = runs(position_runs_);
  segment_runs = runs(segment_runs_);
  step_scalars = arena.tensor(step_scalars_);
}

BatchView BatchBuffers::view(std::int64_t tokens_count, std::int64_t head_rows_count, std::int64_t masked_count,
                             std::int64_t sequences_count) const {
  const std::int64_t token_rows = bucket_rows(tokens_count);
  const std::int64_t head_rows = bucket_rows(head_rows_count);
  const std::int64_t masked_rows = bucket_rows(masked_count);
  const std::int64_t sequence_rows = bucket_rows(sequences_count);
  const auto runs = [&](const Runs& r) { return RunsView{r.order.rows(0, token_rows), r.starts, r.ids, r.runs}; };
  return {.token_ids = token_ids.rows(0, token_rows),
          .segment_ids = segment_ids.rows(0, token_rows),
          .positions = positions.rows(0, token_rows),
          .sequences = sequences.rows(0, token_rows),
          .cu_tokens = cu_tokens,
          .sample_indices = sample_indices,
          .head_token_rows = head_token_rows.rows(0, head_rows),
          .head_positions = head_positions.rows(0, head_rows),
          .head_sequences = head_sequences.rows(0, head_rows),
          .cu_head_rows = cu_head_rows,
          .mlm_head_rows = mlm_head_rows.rows(0, masked_rows),
          .mlm_labels = mlm_labels.rows(0, masked_rows),
          .cls_head_rows = cls_head_rows.rows(0, sequence_rows),
          .nsp_labels = nsp_labels.rows(0, sequence_rows),
          .word_runs = runs(word_runs),
          .position_runs = runs(position_runs),
          .segment_runs = runs(segment_runs),
          .step_scalars = step_scalars};
}

}  // namespace flashbert
