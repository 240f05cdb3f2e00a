#include "train/lamb_optimizer.h"

#include <cmath>

#include "train/schedule.h"

namespace flashbert {

LambOptimizer::LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan) : settings_(settings) {
  const auto count = static_cast<std::int64_t>(parameters);
  scalars_id_ = plan.book("optimizer", "scalars", Dtype::kF32, {kLambScalars});
  weight_norm_id_ = plan.book("optimizer", "weight_norm", Dtype::kF32, {count});
  update_norm_id_ = plan.book("optimizer", "update_norm", Dtype::kF32, {count});
  trust_ratio_id_ = plan.book("optimizer", "trust_ratio", Dtype::kF32, {count});
}

void LambOptimizer::bind(const Arena& arena, const NormResult& result) {
  scalars_ = arena.tensor(scalars_id_);
  result_ = result;
  weight_norm_ = arena.tensor(weight_norm_id_);
  update_norm_ = arena.tensor(update_norm_id_);
  trust_ratio_ = arena.tensor(trust_ratio_id_);
}

LambScalarValues LambOptimizer::scalars(std::int64_t step) const {
  LambScalarValues values{};
  const auto updates = static_cast<double>(step + 1);
  values[kLearningRate] = static_cast<float>(learning_rate(settings_, step));
  values[kBiasCorrection1] = static_cast<float>(1.0 - std::pow(settings_.beta1, updates));
  values[kBiasCorrection2] = static_cast<float>(1.0 - std::pow(settings_.beta2, updates));
  return values;
}

void LambOptimizer::take_scalars(Context& context, ConstTensor values) { context.copy(Stream::kCompute, scalars_, values); }

void LambOptimizer::norm(Ops& ops, const Parameters& parameters, double clip_limit) {
  ops.global_norm({.result = result_, .tensors = parameters.gradient_views(), .clip = static_cast<float>(clip_limit)});
}

void LambOptimizer::apply(Ops& ops, Parameters& parameters) {
  ops.lamb_update({.parameters = parameters.lamb_parameters(),
                   .scalars = scalars_,
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
}

}  // namespace flashbert
