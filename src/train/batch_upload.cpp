#include "train/batch_upload.h"

#include <algorithm>

#include "kernels/ops.h"

namespace flashbert {

BatchUploader::BatchUploader(const RowCapacity& capacity, std::int64_t vocab, std::int64_t max_positions, std::int64_t type_vocab)
    : capacity_(capacity) {
  const auto reserve = [](Staging& staging, std::int64_t count) { staging.reserve(static_cast<std::size_t>(count)); };
  const std::int64_t tokens = bucket_rows(capacity.tokens);
  const std::int64_t head_rows = bucket_rows(capacity.head_rows());
  for (Staging* staging : {&token_ids_, &segment_ids_, &positions_, &sequences_}) reserve(*staging, tokens);
  for (Staging* staging : {&head_token_rows_, &head_positions_, &head_sequences_}) reserve(*staging, head_rows);
  for (Staging* staging : {&mlm_head_rows_, &mlm_labels_}) reserve(*staging, bucket_rows(capacity.masked));
  for (Staging* staging : {&cls_head_rows_, &nsp_labels_}) reserve(*staging, bucket_rows(capacity.sequences));
  for (Staging* staging : {&cu_tokens_, &cu_head_rows_}) reserve(*staging, capacity.sequences + 1);
  sample_indices_.reserve(static_cast<std::size_t>(capacity.sequences));
  const auto reserve_runs = [&](Runs& runs, std::int64_t entries) {
    reserve(runs.order, tokens);
    reserve(runs.starts, std::min(tokens, entries) + 1);
    reserve(runs.ids, std::min(tokens, entries));
    reserve(runs.runs, 1);
  };
  reserve_runs(word_runs_, vocab);
  reserve_runs(position_runs_, max_positions);
  reserve_runs(segment_runs_, type_vocab);
}

void BatchUploader::put(Ops& ops, Tensor to, std::span<const std::int32_t> values, std::int32_t tail, Staging& staging) {
  staging.assign(values.begin(), values.end());
  staging.resize(static_cast<std::size_t>(to.extent(0)), tail);
  if (!staging.empty()) ops.context().write(to, staging.data());
}

void BatchUploader::put_runs(Ops& ops, const BatchBuffers::Runs& to, const SortedRuns& runs, Runs& staging) {
  const auto count = static_cast<std::int64_t>(runs.order.size());
  put(ops, to.order.rows(0, count), runs.order, 0, staging.order);
  put(ops, to.starts.rows(0, runs.runs() + 1), runs.starts, 0, staging.starts);
  put(ops, to.ids.rows(0, runs.runs()), runs.ids, 0, staging.ids);
  const std::array<std::int32_t, 1> total = {static_cast<std::int32_t>(runs.runs())};
  put(ops, to.runs, total, 0, staging.runs);
}

BatchView BatchUploader::upload(Ops& ops, BatchBuffers& buffers, const PackedBatch& batch, const StepScalarValues& scalars) {
  check<InputError>(batch.tokens() <= capacity_.tokens && batch.sequences() <= capacity_.sequences,
                    "a micro-batch has {} tokens in {} sequences; {} tokens in {} sequences were planned", batch.tokens(),
                    batch.sequences(), capacity_.tokens, capacity_.sequences);
  check<InputError>(batch.masked() <= capacity_.masked,
                    "a micro-batch has {} masked positions; {} were planned: raise max-predictions above {}", batch.masked(),
                    capacity_.masked, capacity_.masked / std::max<std::int64_t>(capacity_.sequences, 1));
  const std::int64_t tokens = bucket_rows(batch.tokens());
  const std::int64_t head_rows = bucket_rows(batch.head_rows());
  const std::int64_t masked = bucket_rows(batch.masked());
  const std::int64_t sequences = bucket_rows(batch.sequences());
  put(ops, buffers.token_ids.rows(0, tokens), batch.token_ids, 0, token_ids_);
  put(ops, buffers.segment_ids.rows(0, tokens), batch.segment_ids, 0, segment_ids_);
  put(ops, buffers.positions.rows(0, tokens), batch.positions, 0, positions_);
  put(ops, buffers.sequences.rows(0, tokens), batch.sequences_of_tokens, -1, sequences_);
  // Sequences past the last are empty: their prefix sums repeat the total.
  put(ops, buffers.cu_tokens, batch.cu_tokens, batch.cu_tokens.back(), cu_tokens_);
  put(ops, buffers.head_token_rows.rows(0, head_rows), batch.head_token_rows, -1, head_token_rows_);
  put(ops, buffers.head_positions.rows(0, head_rows), batch.head_positions, 0, head_positions_);
  put(ops, buffers.head_sequences.rows(0, head_rows), batch.head_sequences, -1, head_sequences_);
  put(ops, buffers.cu_head_rows, batch.cu_head_rows, batch.cu_head_rows.back(), cu_head_rows_);
  put(ops, buffers.mlm_head_rows.rows(0, masked), batch.mlm_head_rows, -1, mlm_head_rows_);
  put(ops, buffers.mlm_labels.rows(0, masked), batch.mlm_labels, -1, mlm_labels_);
  put(ops, buffers.cls_head_rows.rows(0, sequences), batch.cls_head_rows, -1, cls_head_rows_);
  put(ops, buffers.nsp_labels.rows(0, sequences), batch.nsp_labels, -1, nsp_labels_);
  put_runs(ops, buffers.word_runs, batch.word_runs, word_runs_);
  put_runs(ops, buffers.position_runs, batch.position_runs, position_runs_);
  put_runs(ops, buffers.segment_runs, batch.segment_runs, segment_runs_);
  sample_indices_.assign(batch.sample_indices.begin(), batch.sample_indices.end());
  sample_indices_.resize(static_cast<std::size_t>(capacity_.sequences), 0);
  ops.context().write(buffers.sample_indices, sample_indices_.data());
  scalars_ = scalars;
  ops.context().write(buffers.step_scalars, scalars_.data());
  return buffers.view(batch.tokens(), batch.head_rows(), batch.masked(), batch.sequences());
}

}  // namespace flashbert
