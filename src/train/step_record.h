#pragma once

#include <cstdint>

#include "core/arena.h"
#include "kernels/args/optimizer.h"

namespace flashbert {

/// What a rank tells the others of its step; summed over ranks with the losses.
struct StepFlags {
  double batches_without_mask = 0.0;  ///< micro-batches without a masked position
  // Each not 0 on any rank: the step is abandoned on all, nothing is updated.
  double interrupts = 0.0, terminations = 0.0;  ///< ranks that got SIGINT, SIGTERM
  double failures = 0.0;                        ///< ranks that had no batch
};
inline constexpr std::int64_t kStepFlags = 4;
static_assert(sizeof(StepFlags) == kStepFlags * sizeof(double));

/// A finished step as the host reads it.
struct StepRecordValues {
  double mlm_loss = 0.0, nsp_loss = 0.0;
  StepFlags flags;
  float norm = 0.0F, clip_scale = 1.0F;
  std::int32_t first_bad = -1;
  std::int32_t held = 0;
};

/// The same in device memory: everything that the host learns of a step, in one piece, for one download.
class StepRecord {
 public:
  explicit StepRecord(ArenaPlan& plan);
  void bind(const Arena& arena);

  [[nodiscard]] Tensor all() const { return all_; }                             ///< (8) f64, the bytes of StepRecordValues
  [[nodiscard]] Tensor summed() const { return all_.rows(0, 2 + kStepFlags); }  ///< f64: losses, then flags; zeroed before each step
  [[nodiscard]] Tensor losses() const { return all_.rows(0, 2); }
  [[nodiscard]] Tensor flags() const { return all_.rows(2, kStepFlags); }
  [[nodiscard]] Tensor abandons() const { return all_.rows(3, kStepFlags - 1); }  ///< the flags that must be 0 for an update
  [[nodiscard]] NormResult norm() const;
  [[nodiscard]] Tensor held() const;

 private:
  template <class T>
  [[nodiscard]] Tensor field(std::size_t offset) const;
  BufferId id_;
  Tensor all_;
};

}  // namespace flashbert
