#include "train/lamb_optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/schedule.h"

namespace flashbert {

LambOptimizer::LambOptimizer(const OptimizerSettings& settings, std::size_t parameters, ArenaPlan& plan) : settings_(settings) {
  const auto count = static_cast<std::int64_t>(parameters);
  scalars_id_ = plan.book("optimizer", "scalars", Dtype::kF32, {kLambScalars});
  norm_id_ = plan.book("optimizer", "norm", Dtype::kF32, {1});
  clip_scale_id_ = plan.book("optimizer", "clip_scale", Dtype::kF32, {1});
  first_bad_id_ = plan.book("optimizer", "first_bad", Dtype::kI32, {1});
  weight_norm_id_ = plan.book("optimizer", "weight_norm", Dtype::kF32, {count});
  update_norm_id_ = plan.book("optimizer", "update_norm", Dtype::kF32, {count});
  trust_ratio_id_ = plan.book("optimizer", "trust_ratio", Dtype::kF32, {count});
}

void LambOptimizer::bind(const Arena& arena, Context& context) {
  scalars_ = arena.tensor(scalars_id_);
  for (Upload& upload : uploads_) {
    upload.memory = context.allocate(scalars_.bytes(), MemoryKind::kPinned);
    upload.copied = context.make_event();
  }
  result_ = {arena.tensor(norm_id_), arena.tensor(clip_scale_id_), arena.tensor(first_bad_id_)};
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

void LambOptimizer::upload_scalars(Context& context, std::int64_t step) {
  Upload& upload = uploads_[static_cast<std::size_t>(step % kUploads)];
  context.wait(*upload.copied);
  const Tensor staging = upload.memory.tensor(Dtype::kF32, scalars_.shape());
  const LambScalarValues values = scalars(step);
  std::copy(values.begin(), values.end(), static_cast<float*>(upload.memory.data()));
  context.copy(Stream::kCompute, scalars_, staging);
  context.record(*upload.copied, Stream::kCompute);
}

void LambOptimizer::norm(Ops& ops, const Parameters& parameters, double clip_limit) {
  ops.global_norm({.result = result_, .tensors = parameters.gradient_views(), .clip = static_cast<float>(clip_limit)});
}

UpdateResult LambOptimizer::update(Ops& ops, Parameters& parameters, std::int64_t step, Clip clip) {
  upload_scalars(ops.context(), step);
  norm(ops, parameters, clip == Clip::kYes ? settings_.clip_norm : std::numeric_limits<float>::max());
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
  float norm_value = 0.0F;
  float scale = 1.0F;
  std::int32_t bad = -1;
  ops.context().read(&norm_value, result_.norm);
  ops.context().read(&scale, result_.clip_scale);
  ops.context().read(&bad, result_.first_bad);
  return {.gradient_norm = norm_value, .clip_scale = scale, .bad_parameter = bad};
}

}  // namespace flashbert
