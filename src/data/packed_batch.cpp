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
}

}  // namespace

void PackedBatch::reserve(const BatchCapacity& capacity) {
  const auto reserve_all = [](std::int64_t count, auto&... vectors) { (vectors.reserve(static_cast<std::size_t>(count)), ...); };
  reserve_all(capacity.tokens, token_ids, segment_ids, positions, sequences_of_tokens);
  reserve_all(capacity.sequences + 1, cu_tokens, cu_head_rows);
  reserve_all(capacity.sequences, sample_indices, cls_head_rows, nsp_labels);
  reserve_all(capacity.sequences + capacity.masked, head_token_rows, head_positions, head_sequences);
  reserve_all(capacity.masked, mlm_head_rows, mlm_labels);
  for (SortedRuns* runs : {&word_runs, &position_runs, &segment_runs}) {
    reserve_all(capacity.tokens, runs->order, runs->ids);
    reserve_all(capacity.tokens + 1, runs->starts);
  }
  clear();
}

void PackedBatch::clear() {
  for (auto* vector : {&token_ids, &segment_ids, &positions, &sequences_of_tokens, &cu_tokens, &head_token_rows, &head_positions,
                       &head_sequences, &cu_head_rows, &mlm_head_rows, &mlm_labels, &cls_head_rows, &nsp_labels}) {
    vector->clear();
  }
  sample_indices.clear();
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
