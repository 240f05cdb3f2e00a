#include "train/batch_slots.h"

#include <utility>

namespace flashbert {

BatchSlots::BatchSlots(BatchLayout layout, ArenaPlan& plan) : layout_(std::move(layout)) {
  for (Slot& slot : slots_) slot.image_id = plan.book("batch", "image", Dtype::kU8, {layout_.bytes()});
}

void BatchSlots::bind(const Arena& arena, Context& context) {
  context_ = &context;
  for (Slot& slot : slots_) {
    slot.image = arena.tensor(slot.image_id);
    slot.staging = context.allocate(layout_.bytes(), MemoryKind::kPinned);
    slot.uploaded = context.make_event();
    slot.consumed = context.make_event();
  }
}

DeviceBatch BatchSlots::upload(const MicroBatch& batch) {
  current_ = 1 - current_;
  Slot& slot = slots_[current_];
  context_->wait(*slot.uploaded);
  layout_.write({static_cast<std::byte*>(slot.staging.data()), static_cast<std::size_t>(layout_.bytes())}, batch);
  context_->order(Stream::kCopy, *slot.consumed);
  context_->copy(Stream::kCopy, slot.image, slot.staging.tensor(Dtype::kU8, {layout_.bytes()}));
  context_->record(*slot.uploaded, Stream::kCopy);
  context_->order(Stream::kCompute, *slot.uploaded);
  return layout_.view(slot.image, batch.packed);
}

void BatchSlots::consumed() { context_->record(*slots_[current_].consumed, Stream::kCompute); }

}  // namespace flashbert
