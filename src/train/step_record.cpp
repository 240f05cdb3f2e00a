#include "train/step_record.h"

#include <cstddef>

namespace flashbert {
namespace {

constexpr std::int64_t kDoubles = sizeof(StepRecordValues) / sizeof(double);
static_assert(sizeof(StepRecordValues) == kDoubles * sizeof(double));
static_assert(offsetof(StepRecordValues, flags) == 2 * sizeof(double));

}  // namespace

StepRecord::StepRecord(ArenaPlan& plan) : id_(plan.book("batch", "step record", Dtype::kF64, {kDoubles})) {}

void StepRecord::bind(const Arena& arena) { all_ = arena.tensor(id_); }

template <class T>
Tensor StepRecord::field(std::size_t offset) const {
  return {static_cast<std::byte*>(all_.raw()) + offset, kDtypeOf<T>, Shape{1}, 1, all_.space()};
}

NormResult StepRecord::norm() const {
  return {.norm = field<float>(offsetof(StepRecordValues, norm)),
          .clip_scale = field<float>(offsetof(StepRecordValues, clip_scale)),
          .first_bad = field<std::int32_t>(offsetof(StepRecordValues, first_bad))};
}

Tensor StepRecord::held() const { return field<std::int32_t>(offsetof(StepRecordValues, held)); }

}  // namespace flashbert
