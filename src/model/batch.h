#pragma once

#include <cstdint>

#include "kernels/args/common.h"
#include "model/row_capacity.h"

namespace flashbert {

/// Rows of a table sorted by entry (see EmbeddingGradient).
struct RunsView {
  ConstTensor order, starts, ids, runs;
};

/// The rows of an activation, N of them, and where each comes from.
struct RowSet {
  ConstTensor sequence;   ///< (N) i32: the row's sequence in the batch, -1 in the tail
  ConstTensor position;   ///< (N) i32: the row's position in its sequence
  ConstTensor cu;         ///< (sequence capacity + 1) i32: sequence b has rows cu[b] .. cu[b + 1]; sequences past the last are empty
  ConstTensor token_row;  ///< (N) i32: the row's place among all tokens, -1 in the tail; absent for all tokens themselves
  [[nodiscard]] std::int64_t count() const { return sequence.extent(0); }
};

/// One micro-batch in device memory; the extents are bucketed row counts, the tails are filled as kernels/args/common.h says.
struct BatchView {
  RowSet tokens;                          ///< all T tokens, back to back
  RowSet head_rows;                       ///< the R rows that the heads read: of each sequence its [CLS] row, then its masked rows
  ConstTensor token_ids, segment_ids;     ///< (T) i32
  ConstTensor sample_indices;             ///< (sequence capacity) u64
  ConstTensor mlm_head_rows, mlm_labels;  ///< (P) i32
  ConstTensor cls_head_rows, nsp_labels;  ///< (B) i32
  RunsView word_runs, position_runs, segment_runs;
  ConstTensor step_scalars;  ///< (kStepScalars) f32
  [[nodiscard]] const RowSet& rows(LayerRows which) const { return which == LayerRows::kHeadRows ? head_rows : tokens; }
  [[nodiscard]] RowOrigin origin(const RowSet& rows) const { return {rows.sequence, rows.position, sample_indices}; }
  [[nodiscard]] std::int64_t masked() const { return mlm_labels.extent(0); }
  [[nodiscard]] std::int64_t sequence_rows() const { return nsp_labels.extent(0); }
};

}  // namespace flashbert
