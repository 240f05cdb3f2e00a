#pragma once

#include <cstdint>

#include "core/arena.h"
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

/// Device buffers of one micro-batch at full capacity.
class BatchBuffers {
 public:
  BatchBuffers(const RowCapacity& rows, std::int64_t vocab, std::int64_t max_positions, std::int64_t type_vocab, ArenaPlan& plan);
  void bind(const Arena& arena);
  [[nodiscard]] const RowCapacity& capacity() const { return rows_; }

  struct Runs {
    Tensor order, starts, ids, runs;
  };
  Tensor token_ids, segment_ids, positions, sequences, cu_tokens, sample_indices;
  Tensor head_token_rows, head_positions, head_sequences, cu_head_rows;
  Tensor mlm_head_rows, mlm_labels, cls_head_rows, nsp_labels;
  Runs word_runs, position_runs, segment_runs;
  Tensor step_scalars;

  /// Views cut to the buckets of these true counts.
  [[nodiscard]] BatchView view(std::int64_t tokens, std::int64_t head_rows, std::int64_t masked, std::int64_t sequences) const;

 private:
  struct RunsIds {
    BufferId order, starts, ids, runs;
  };
  RowCapacity rows_;
  BufferId token_ids_, segment_ids_, positions_, sequences_, cu_tokens_, sample_indices_;
  BufferId head_token_rows_, head_positions_, head_sequences_, cu_head_rows_;
  BufferId mlm_head_rows_, mlm_labels_, cls_head_rows_, nsp_labels_, step_scalars_;
  RunsIds word_runs_, position_runs_, segment_runs_;
};

}  // namespace flashbert
