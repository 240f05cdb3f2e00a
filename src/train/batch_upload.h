#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/packed_batch.h"
#include "kernels/ops.h"
#include "model/batch.h"

namespace flashbert {

/// Values of the step scalars (kernels/args/common.h).
using StepScalarValues = std::array<float, kStepScalars>;

/// Copies packed micro-batches to the device's batch buffers, with tails filled. Holds host staging memory for every field, made
/// once. Throws InputError when a batch is larger than the capacity (more masked positions in a sample than max-predictions allows).
class BatchUploader {
 public:
  explicit BatchUploader(const RowCapacity& capacity, std::int64_t vocab, std::int64_t max_positions, std::int64_t type_vocab);
  BatchView upload(Ops& ops, BatchBuffers& buffers, const PackedBatch& batch, const StepScalarValues& scalars);

 private:
  using Staging = std::vector<std::int32_t>;
  struct Runs {
    Staging order, starts, ids, runs;
  };
  static void put(Ops& ops, Tensor to, std::span<const std::int32_t> values, std::int32_t tail, Staging& staging);
  static void put_runs(Ops& ops, const BatchBuffers::Runs& to, const SortedRuns& runs, Runs& staging);

  RowCapacity capacity_;
  Staging token_ids_, segment_ids_, positions_, sequences_, cu_tokens_, head_token_rows_, head_positions_, head_sequences_, cu_head_rows_,
      mlm_head_rows_, mlm_labels_, cls_head_rows_, nsp_labels_;
  std::vector<std::uint64_t> sample_indices_;
  Runs word_runs_, position_runs_, segment_runs_;
  StepScalarValues scalars_{};
};

}  // namespace flashbert
