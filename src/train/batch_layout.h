#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "data/packed_batch.h"
#include "kernels/ops.h"
#include "model/batch.h"
#include "model/bert_config.h"
#include "model/row_capacity.h"
#include "train/lamb_optimizer.h"
#include "train/step_record.h"

namespace flashbert {

/// Values of the step scalars (kernels/args/common.h).
using StepScalarValues = std::array<float, kStepScalars>;

/// One micro-batch as the host has it, and what rides with it.
struct MicroBatch {
  const PackedBatch& packed;
  StepScalarValues scalars{};
  std::array<double, 2> loss_divisors = {1.0, 1.0};  ///< of the sums of masked-LM and next-sentence nll, where the step adds them up
  StepFlags flags{};
  LambScalarValues lamb_scalars{};
};

/// One micro-batch in device memory: what the model sees, and what the step takes besides.
struct DeviceBatch {
  BatchView view;
  ConstTensor loss_divisors;  ///< (2) f64
  ConstTensor flags;          ///< (kStepFlags) f64
  ConstTensor lamb_scalars;   ///< (kLambScalars) f32
};

/// How many rows the columns of a batch have, rounded up to counts that the backend is prepared for.
struct BatchRowCounts {
  std::int64_t tokens = 0, head_rows = 0, masked = 0, sequences = 0;
  std::int64_t most_sequences = 0;  ///< of the capacity: offsets and sample indices have the same extent in every batch
  std::int64_t most_word_runs = 0, most_position_runs = 0, most_segment_runs = 0;  ///< of the capacity
};

/// Where each column of a micro-batch lies in its image: one piece of memory, alike on the host and on the device, so that one copy brings
/// all of it. Places are fixed by the capacity and do not depend on how full a batch is: a captured graph can replay with unchanged
/// arguments. The columns themselves are one list, in batch_layout.cpp.
class BatchLayout {
 public:
  /// ops tells which row counts the backend is prepared for.
  BatchLayout(const RowCapacity& capacity, const BertConfig& model, const Ops& ops);

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Writes the columns, each filled up to the row count that the device will see as kernels/args/common.h says of tails; image is bytes()
  /// of host memory. Throws InputError when the batch is larger than the capacity (more masked positions in a sample than max-predictions
  /// allows).
  void write(std::span<std::byte> image, const MicroBatch& batch) const;
  /// The columns of an image in device memory, cut to the row counts for this batch.
  [[nodiscard]] DeviceBatch view(Tensor image, const PackedBatch& batch) const;

  /// For tests and documents: name and bytes of each column at full capacity.
  struct Place {
    std::string_view name;
    std::int64_t offset = 0, bytes = 0;
  };
  [[nodiscard]] const std::vector<Place>& places() const { return places_; }

 private:
  [[nodiscard]] BatchRowCounts counts_of(const RowCapacity& rows) const;
  [[nodiscard]] BatchRowCounts counts_of(const PackedBatch& batch) const;

  RowCapacity capacity_;
  const Ops& ops_;
  BatchRowCounts most_;
  std::vector<Place> places_;
  std::int64_t bytes_ = 0;
};

}  // namespace flashbert
