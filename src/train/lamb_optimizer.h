#pragma once

#include <array>
#include <cstdint>
#include <memory>
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

/// Values of the scalars of one update (kernels/args/optimizer.h).
using LambScalarValues = std::array<float, kLambScalars>;

/// Global norm, clipping and LAMB over all parameters. It has no count of updates: the step says which one it is.
class LambOptimizer {
 public:
  LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan);
  void bind(const Arena& arena, Context& context);

  enum class Clip { kYes, kNo };
  /// Enqueues update number `step` (from 0) from the parameters' gradients, then waits and tells.
  UpdateResult update(Ops& ops, Parameters& parameters, std::int64_t step, Clip clip);
  /// Norm of the gradients only: writes result() for a clip limit.
  void norm(Ops& ops, const Parameters& parameters, double clip_limit);
  [[nodiscard]] const NormResult& result() const { return result_; }

  /// Learning rate and bias corrections of update number `step` (from 0).
  [[nodiscard]] LambScalarValues scalars(std::int64_t step) const;

  // Per parameter, of the last update, in device memory (parameters) f32: ||w|| before, ||u||, trust ratio.
  [[nodiscard]] Tensor weight_norms() const { return weight_norm_; }
  [[nodiscard]] Tensor update_norms() const { return update_norm_; }
  [[nodiscard]] Tensor trust_ratios() const { return trust_ratio_; }

 private:
  /// Two, so that the host can prepare an update while the one before it has not run.
  static constexpr std::int64_t kUploads = 2;
  struct Upload {
    Buffer memory;
    std::unique_ptr<Event> copied;
  };
  void upload_scalars(Context& context, std::int64_t step);

  OptimizerSettings settings_;
  std::array<Upload, kUploads> uploads_;
  Tensor scalars_;
  BufferId scalars_id_, norm_id_, clip_scale_id_, first_bad_id_, weight_norm_id_, update_norm_id_, trust_ratio_id_;
  NormResult result_;
  Tensor weight_norm_, update_norm_, trust_ratio_;
};

}  // namespace flashbert
