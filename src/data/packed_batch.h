#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample_store.h"

namespace flashbert {

/// Rows sorted by table entry, for a deterministic embedding gradient without atomics: run r covers
/// order[starts[r] .. starts[r + 1]) and adds into table row ids[r]. Inside a run, rows ascend. Runs ascend by id.
struct SortedRuns {
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> ids;
  std::int32_t count = 0;  ///< runs
};

/// Widest batch a PackedBatch will ever hold; vectors are reserved for it once and never grow.
struct BatchCapacity {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;  ///< sequences * longest sequence
  std::int64_t masked = 0;  ///< sequences * most predictions a sequence
};

/// One micro-batch of one rank, packed without padding: T tokens, B sequences, R head rows, P masked rows.
/// Head rows are the rows the heads read: of each sequence its [CLS] row, then its masked rows in ascending order.
struct PackedBatch {
  void reserve(const BatchCapacity& capacity);
  void clear();
  /// sample_index: running index of the sample in the run (step * global batch + slot), the dropout counter.
  void append(const SampleView& sample, std::uint64_t sample_index);
  /// Builds the sorted runs; call once after the last append.
  void finish();

  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(token_ids.size()); }
  [[nodiscard]] std::int64_t sequences() const { return static_cast<std::int64_t>(sample_indices.size()); }
  [[nodiscard]] std::int64_t head_rows() const { return static_cast<std::int64_t>(head_token_rows.size()); }
  [[nodiscard]] std::int64_t masked() const { return static_cast<std::int64_t>(mlm_labels.size()); }

  std::vector<std::int32_t> token_ids, segment_ids, positions, sequences_of_tokens;  ///< (T)
  std::vector<std::int32_t> cu_tokens;                                               ///< (B + 1) prefix sums of lengths
  std::vector<std::uint64_t> sample_indices;                                         ///< (B)
  std::vector<std::int32_t> head_token_rows, head_positions, head_sequences;         ///< (R) row in T, position, sequence
  std::vector<std::int32_t> cu_head_rows;                                            ///< (B + 1)
  std::vector<std::int32_t> mlm_head_rows, mlm_labels;                               ///< (P) row in R, label
  std::vector<std::int32_t> cls_head_rows, nsp_labels;                               ///< (B) row in R, label
  SortedRuns word_runs, position_runs, segment_runs;                                 ///< over the T token rows
};

}  // namespace flashbert
