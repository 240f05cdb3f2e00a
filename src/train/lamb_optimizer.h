#pragma once

#include <cstdint>
#include <string>

#include "core/arena.h"
#include "model/parameters.h"
#include "train/train_settings.h"

namespace flashbert {

/// What one update did, on the host.
struct UpdateResult {
  double gradient_norm = 0.0;  ///< before clipping
  double clip_scale = 1.0;
  std::int64_t bad_parameter = -1;  ///< index into the parameter table of a gradient with NaN or infinity: nothing was updated
};

/// Global norm, clipping and LAMB over all parameters. It has no count of updates: step_scalars say which one it is.
class LambOptimizer {
 public:
  LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan);
  void bind(const Arena& arena);

  enum class Clip { kYes, kNo };
  /// Enqueues norm and update from the parameters' gradients; step_scalars as filled by
  /// fill_scalars(). Then waits and tells.
  UpdateResult update(Ops& ops, Parameters& parameters, ConstTensor step_scalars, Clip clip);
  /// Norm of the gradients only: writes result() for a clip limit.
  void norm(Ops& ops, const Parameters& parameters, double clip_limit);
  [[nodiscard]] const NormResult& result() const { return result_; }

  /// Learning rate and bias corrections of update number `step` (from 0) in a StepScalarValues-like array.
  void fill_scalars(std::int64_t step, float* values) const;

  // Per parameter, of the last update, in device memory (parameters) f32: ||w|| before, ||u||, trust ratio.
  [[nodiscard]] Tensor weight_norms() const { return weight_norm_; }
  [[nodiscard]] Tensor update_norms() const { return update_norm_; }
  [[nodiscard]] Tensor trust_ratios() const { return trust_ratio_; }

 private:
  OptimizerSettings settings_;
  BufferId norm_id_, clip_scale_id_, first_bad_id_, weight_norm_id_, update_norm_id_, trust_ratio_id_;
  NormResult result_;
  Tensor weight_norm_, update_norm_, trust_ratio_;
};

}  // namespace flashbert
