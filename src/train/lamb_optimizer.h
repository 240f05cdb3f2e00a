#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/arena.h"
#include "model/parameters.h"
#include "train/train_settings.h"

namespace flashbert {

/// Values of the scalars of one update (kernels/args/optimizer.h).
using LambScalarValues = std::array<float, kLambScalars>;

/// Global norm, clipping and LAMB over all parameters. It has no count of updates: the scalars say which one it is.
class LambOptimizer {
 public:
  LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan);
  /// result: where norm() leaves what it found, and apply() takes it from.
  void bind(const Arena& arena, const NormResult& result);

  /// Learning rate and bias corrections of update number `step` (from 0).
  [[nodiscard]] LambScalarValues scalars(std::int64_t step) const;

  // These enqueue on the compute stream and never wait.
  /// The scalars of the next update, (kLambScalars) f32 in device memory.
  void take_scalars(Context& context, ConstTensor values);
  /// Norm of all gradients, the factor that clips it to the limit, and the first gradient that is not finite.
  void norm(Ops& ops, const Parameters& parameters, double clip_limit);
  /// LAMB over all parameters with what norm() left, and the packs of the new weights. Does nothing where the result's first_bad is not -1.
  void apply(Ops& ops, Parameters& parameters);
  [[nodiscard]] const NormResult& result() const { return result_; }

  // Per parameter, of the last update, in device memory (parameters) f32: ||w|| before, ||u||, trust ratio.
  [[nodiscard]] Tensor weight_norms() const { return weight_norm_; }
  [[nodiscard]] Tensor update_norms() const { return update_norm_; }
  [[nodiscard]] Tensor trust_ratios() const { return trust_ratio_; }

 private:
  OptimizerSettings settings_;
  BufferId scalars_id_, weight_norm_id_, update_norm_id_, trust_ratio_id_;
  NormResult result_;
  Tensor scalars_, weight_norm_, update_norm_, trust_ratio_;
};

}  // namespace flashbert
