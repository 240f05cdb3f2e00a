#pragma once

#include <array>
#include <memory>

#include "core/arena.h"
#include "train/batch_layout.h"

namespace flashbert {

/// Two images of a micro-batch on the device, each with its own in pinned host memory: while the device works on one, the host stages the
/// next and the copy runs beside the work. An event for each direction keeps the order: an image is copied again only after the work that
/// reads it
/// (`consumed`), staging is written again only after its copy (`uploaded`).
class BatchSlots {
 public:
  /// Books the device's images.
  BatchSlots(BatchLayout layout, ArenaPlan& plan);
  void bind(const Arena& arena, Context& context);

  /// Stages the batch and enqueues one copy; work enqueued on the compute stream from now on sees it. The host waits only where this slot's
  /// copy of two micro-batches ago has not run yet. The view is valid until consumed() and the second upload after it. Throws as
  /// BatchLayout::write.
  DeviceBatch upload(const MicroBatch& batch);
  /// Everything that reads the last view is enqueued on the compute stream.
  void consumed();

 private:
  struct Slot {
    BufferId image_id;
    Tensor image;    ///< on the device
    Buffer staging;  ///< pinned
    std::unique_ptr<Event> uploaded, consumed;
  };
  BatchLayout layout_;
  Context* context_ = nullptr;
  std::array<Slot, 2> slots_;
  std::size_t current_ = 0;
};

}  // namespace flashbert
