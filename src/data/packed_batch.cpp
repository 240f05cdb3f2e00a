#include "data/packed_batch.h"

#include <algorithm>
#include <numeric>

namespace flashbert {
namespace {

/// Stable: rows ascend inside a run. std::sort on (key, row) pairs in place, because std::stable_sort allocates.
void build_runs(const std::vector<std::int32_t>& keys, SortedRuns& runs) {
  runs.order.resize(keys.size());
  std::iota(runs.order.begin(), runs.order.end(), 0);
  const auto key = [&](std::int32_t row) { return keys[static_cast<std::size_t>(row)]; };
  std::sort(runs.order.begin(), runs.order.end(),
            [&](std::int32_t a, std::int32_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  runs.starts.clear();
  runs.ids.clear();
  for (std::size_t k = 0; k < runs.order.size(); ++k) {
    const std::int32_t id = key(runs.order[k]);
    if (runs.ids.empty() || runs.ids.back() != id) {
      runs.ids.push_back(id);
      runs.starts.push_back(static_cast<std::int32_t>(k));
    }
  }
  runs.starts.push_back(static_cast<std::int32_t>(runs.order.size()));
  runs.count = static_cast<std::int32_t>(runs.ids.size());
}

/// f(column, most rows) for all columns.
template <class Function>
void for_each_column(PackedBatch& batch, const BatchCapacity& most, const Function& f) {
  for (auto* const column : {&batch.token_ids, &batch.segment_ids, &batch.positions, &batch.sequences_of_tokens}) f(*column, most.tokens);
  for (auto* const column : {&batch.head_token_rows, &batch.head_positions, &batch.head_sequences})
    f(*column, most.sequences + most.masked);
  for (auto* const column : {&batch.mlm_head_rows, &batch.mlm_labels}) f(*column, most.masked);
  for (auto* const column : {&batch.cls_head_rows, &batch.nsp_labels}) f(*column, most.sequences);
  for (auto* const column : {&batch.cu_tokens, &batch.cu_head_rows}) f(*column, most.sequences + 1);
  f(batch.sample_indices, most.sequences);
  for (SortedRuns* const runs : {&batch.word_runs, &batch.position_runs, &batch.segment_runs}) {
    f(runs->order, most.tokens);
    f(runs->starts, most.tokens + 1);
    f(runs->ids, most.tokens);
  }
}

}  // namespace

void PackedBatch::reserve(const BatchCapacity& capacity) {
  for_each_column(*this, capacity, [](auto& column, std::int64_t most) { column.reserve(static_cast<std::size_t>(most)); });
  clear();
}

void PackedBatch::clear() {
  for_each_column(*this, {}, [](auto& column, std::int64_t /*most*/) { column.clear(); });
  cu_tokens.push_back(0);
  cu_head_rows.push_back(0);
}

void PackedBatch::append(const SampleView& sample, std::uint64_t sample_index) {
  const auto sequence = static_cast<std::int32_t>(sequences());
  const std::int32_t first_token = cu_tokens.back();
  const auto add_head_row = [&](std::int32_t position) {
    head_token_rows.push_back(first_token + position);
    head_positions.push_back(position);
    head_sequences.push_back(sequence);
    return static_cast<std::int32_t>(head_token_rows.size()) - 1;
  };
  for (std::size_t i = 0; i < sample.token_ids.size(); ++i) {
    token_ids.push_back(sample.token_ids[i]);
    segment_ids.push_back(sample.segment_ids[i]);
    positions.push_back(static_cast<std::int32_t>(i));
    sequences_of_tokens.push_back(sequence);
  }
  cu_tokens.push_back(static_cast<std::int32_t>(token_ids.size()));
  cls_head_rows.push_back(add_head_row(0));
  nsp_labels.push_back(sample.next_sentence_label);
  for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
    mlm_head_rows.push_back(add_head_row(sample.masked_positions[i]));
    mlm_labels.push_back(sample.masked_labels[i]);
  }
  cu_head_rows.push_back(static_cast<std::int32_t>(head_token_rows.size()));
  sample_indices.push_back(sample_index);
}

void PackedBatch::finish() {
  build_runs(token_ids, word_runs);
  build_runs(positions, position_runs);
  build_runs(segment_ids, segment_runs);
}

}  // namespace flashbert
