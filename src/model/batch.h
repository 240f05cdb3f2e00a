#pragma once

#include <cstdint>

#include "kernels/args/common.h"
#include "model/row_capacity.h"

namespace flashbert {

/// Rows of a table sorted by entry (see EmbeddingGradient).
struct RunsView {
  ConstTensor order, starts, ids, runs;
};

/// One micro-batch in device memory; the extents are bucketed row counts, the tails are filled as kernels/args/common.h says.
/// Head rows are the rows the heads read: of each sequence its [CLS] row, then its masked rows.
struct BatchView {
  ConstTensor token_ids, segment_ids, positions, sequences;     ///< (T)
  ConstTensor cu_tokens;                                        ///< (sequence capacity + 1): sequences past the last are empty
  ConstTensor sample_indices;                                   ///< (sequence capacity)
  ConstTensor head_token_rows, head_positions, head_sequences;  ///< (R)
  ConstTensor cu_head_rows;                                     ///< (sequence capacity + 1)
  ConstTensor mlm_head_rows, mlm_labels;                        ///< (P)
  ConstTensor cls_head_rows, nsp_labels;                        ///< (B)
  RunsView word_runs, position_runs, segment_runs;
  ConstTensor step_scalars;  ///< (kStepScalars) f32
  [[nodiscard]] std::int64_t tokens() const { return token_ids.extent(0); }
  [[nodiscard]] std::int64_t head_rows() const { return head_token_rows.extent(0); }
  [[nodiscard]] std::int64_t masked() const { return mlm_labels.extent(0); }
  [[nodiscard]] std::int64_t sequence_rows() const { return nsp_labels.extent(0); }
};

}  // namespace flashbert
