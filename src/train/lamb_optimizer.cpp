#include "train/lamb_optimizer.h"

#include <cmath>
#include <limits>

#include "train/schedule.h"

namespace flashbert {

LambOptimizer::LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan) : settings_(settings) {
  const auto count = static_cast<std::int64_t>(parameters);
  norm_id_ = plan.book("optimizer", "norm", Dtype::kF32, {1});
  clip_scale_id_ = plan.book("optimizer", "clip_scale", Dtype::kF32, {1});
  first_bad_id_ = plan.book("optimizer", "first_bad", Dtype::kI32, {1});
  weight_norm_id_ = plan.book("optimizer", "weight_norm", Dtype::kF32, {count});
  update_norm_id_ = plan.book("optimizer", "update_norm", Dtype::kF32, {count});
  trust_ratio_id_ = plan.book("optimizer", "trust_ratio", Dtype::kF32, {count});
}

void LambOptimizer::bind(const Arena& arena) {
  result_ = {arena.tensor(norm_id_), arena.tensor(clip_scale_id_), arena.tensor(first_bad_id_)};
  weight_norm_ = arena.tensor(weight_norm_id_);
  update_norm_ = arena.tensor(update_norm_id_);
  trust_ratio_ = arena.tensor(trust_ratio_id_);
}

void LambOptimizer::fill_scalars(std::int64_t step, float* values) const {
  const auto updates = static_cast<double>(step + 1);
  values[kLearningRate] = static_cast<float>(learning_rate(settings_, step));
  values[kBiasCorrection1] = static_cast<float>(1.0 - std::pow(settings_.beta1, updates));
  values[kBiasCorrection2] = static_cast<float>(1.0 - std::pow(settings_.beta2, updates));
}

void LambOptimizer::norm(Ops& ops, const Parameters& parameters, double clip_limit) {
  ops.global_norm({.result = result_, .tensors = parameters.gradient_views(), .clip = static_cast<float>(clip_limit)});
}

UpdateResult LambOptimizer::update(Ops& ops, Parameters& parameters, ConstTensor step_scalars, Clip clip) {
  norm(ops, parameters, clip == Clip::kYes ? settings_.clip_norm : std::numeric_limits<float>::max());
  ops.lamb_update({.parameters = parameters.lamb_parameters(),
                   .step_scalars = step_scalars,
                   .clip_scale = result_.clip_scale,
                   .first_bad = result_.first_bad,
                   .weight_norm = weight_norm_,
                   .update_norm = update_norm_,
                   .trust_ratio = trust_ratio_,
                   .beta1 = settings_.beta1,
                   .beta2 = settings_.beta2,
                   .epsilon = static_cast<float>(settings_.epsilon),
                   .weight_decay = static_cast<float>(settings_.weight_decay)});
  parameters.refresh_packs(ops);
  float norm_value = 0.0F;
  float scale = 1.0F;
  std::int32_t bad = -1;
  ops.context().read(&norm_value, result_.norm);
  ops.context().read(&scale, result_.clip_scale);
  ops.context().read(&bad, result_.first_bad);
  return {.gradient_norm = norm_value, .clip_scale = scale, .bad_parameter = bad};
}

}  // namespace flashbert
