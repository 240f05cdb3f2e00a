#include "train/engine.h"

#include <bit>
#include <cmath>

#include "core/clock.h"
#include "core/digest.h"

namespace flashbert {
namespace {

/// The reference's guard against a batch without masked tokens, part of its definition of the loss.
constexpr double kReferenceDenominatorGuard = 1e-5;

}  // namespace

EngineParts::EngineParts(const EngineOptions& options, Ops& ops) {
  model = std::make_unique<BertModel>(options.model, options.compute, options.capacity, options.use, ops, plan);
  optimizer = std::make_unique<LambOptimizer>(options.optimizer, model->parameters().table().parameters().size(), plan);
  if (options.use == Parameters::Use::kTraining && options.clip == ClipOrder::kBeforeReduce && options.accumulation > 1) {
    std::int64_t elements = 0;
    for (const ArenaPlan::Entry& entry : plan.entries()) elements += entry.group == "gradients" ? entry.shape.elements() + 64 : 0;
    total_gradient = plan.book("gradients", "sum over micro-batches", Dtype::kF32, {elements});
  }
  batches = std::make_unique<BatchSlots>(BatchLayout(options.capacity, options.model, ops), plan);
  const std::int64_t bytes = ops.workspace_bytes(ops_plan(options.model, options.compute, options.capacity, options.use));
  workspace = plan.book("workspace", "ops", Dtype::kU8, {bytes});
}

Engine::Engine(const EngineOptions& options, Ops& ops, Communicator& communicator)
    : options_(options),
      ops_(ops),
      communicator_(communicator),
      parts_(options, ops),
      model_(parts_.model.get()),
      optimizer_(parts_.optimizer.get()),
      arena_(std::make_unique<Arena>(parts_.plan, ops.context())) {
  model_->bind(*arena_);
  optimizer_->bind(*arena_, ops.context());
  ops.prepare(ops_plan(options.model, options.compute, options.capacity, options.use), arena_->tensor(parts_.workspace));
  if (parts_.total_gradient) {
    total_gradient_ = arena_->tensor(*parts_.total_gradient).rows(0, model_->parameters().all_gradients().extent(0));
  }
  parts_.batches->bind(*arena_, ops.context());
}

StepScalarValues Engine::scalars(const StepBatch& batch, const PackedBatch& micro) const {
  StepScalarValues values{};
  if (options_.loss_normalisation == LossNormalisation::kGlobal) {
    values[kMlmScale] = batch.global_masked > 0 ? static_cast<float>(1.0 / static_cast<double>(batch.global_masked)) : 0.0F;
    values[kNspScale] = static_cast<float>(1.0 / static_cast<double>(options_.global_batch));
  } else {
    const double replicas = static_cast<double>(options_.accumulation) * communicator_.size();
    values[kMlmScale] = static_cast<float>(1.0 / ((static_cast<double>(micro.masked()) + kReferenceDenominatorGuard) * replicas));
    values[kNspScale] = static_cast<float>(1.0 / (static_cast<double>(micro.sequences()) * replicas));
  }
  return values;
}

void Engine::run_micro_batch(const StepBatch& batch, std::size_t index) {
  const PackedBatch& micro = batch.micro_batches[index];
  const BatchView view = parts_.batches->upload({micro, scalars(batch, micro)});
  const bool own_sum = static_cast<bool>(total_gradient_);
  const Pass pass{.ops = ops_,
                  .arena = model_->arena(),
                  .parameters = model_->parameters(),
                  .batch = view,
                  .training = true,
                  .seed = options_.seed,
                  .accumulate = index == 0 || own_sum ? Accumulate::kOverwrite : Accumulate::kAdd,
                  .on_gradient_ready = {}};
  model_->forward(pass);
  model_->backward(pass);
  parts_.batches->consumed();
  if (options_.clip == ClipOrder::kBeforeReduce) clip_before_reduce(index);
}

void Engine::clip_before_reduce(std::size_t micro_batch) {
  // Gradients carry 1 / (ranks x micro-batches) already, so the limit is scaled alike: each replica's own mean is clipped.
  const double replicas = static_cast<double>(options_.accumulation) * communicator_.size();
  Parameters& parameters = model_->parameters();
  optimizer_->norm(ops_, parameters, options_.optimizer.clip_norm / replicas);
  const Tensor gradients = parameters.all_gradients();
  ops_.scaled_copy({.y = total_gradient_ ? total_gradient_ : gradients,
                    .x = gradients,
                    .scale = optimizer_->result().clip_scale,
                    .accumulate = total_gradient_ && micro_batch > 0 ? Accumulate::kAdd : Accumulate::kOverwrite});
}

std::array<double, 4> Engine::download_sums() {
  const LossSums sums = model_->sums();
  double mlm_nll = 0.0;
  double nsp_nll = 0.0;
  std::int64_t mlm_correct = 0;
  std::int64_t nsp_correct = 0;
  ops_.context().read(&mlm_nll, sums.mlm.nll_sum);
  ops_.context().read(&nsp_nll, sums.nsp.nll_sum);
  ops_.context().read(&mlm_correct, sums.mlm.correct);
  ops_.context().read(&nsp_correct, sums.nsp.correct);
  ops_.context().synchronize();
  return {mlm_nll, nsp_nll, static_cast<double>(mlm_correct), static_cast<double>(nsp_correct)};
}

Engine::Losses Engine::reduce_losses(const StepBatch& batch, StepResult& result) {
  std::array<double, 3> sums = {own_losses_.mlm, own_losses_.nsp, static_cast<double>(result.batches_without_mask)};
  communicator_.all_reduce_sum(std::span<double>(sums));
  result.batches_without_mask = static_cast<std::int64_t>(sums[2]);
  Losses losses;
  if (options_.loss_normalisation == LossNormalisation::kGlobal) {
    losses.mlm = batch.global_masked > 0 ? sums[0] / static_cast<double>(batch.global_masked) : 0.0;
    losses.nsp = sums[1] / static_cast<double>(options_.global_batch);
  } else {
    const double replicas = static_cast<double>(options_.accumulation) * communicator_.size();
    losses.mlm = sums[0] / replicas;
    losses.nsp = sums[1] / replicas;
  }
  losses.loss = losses.mlm + losses.nsp;
  if (!std::isfinite(losses.mlm)) result.bad_value = "masked-LM loss";
  if (!std::isfinite(losses.nsp)) result.bad_value = "next-sentence loss";
  return losses;
}

StepResult Engine::train_step(const StepBatch& batch) {
  StepResult result;
  const auto start = Clock::now();
  own_losses_ = {};
  if (options_.loss_normalisation == LossNormalisation::kGlobal) model_->zero_sums(ops_);
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const PackedBatch& micro = batch.micro_batches[i];
    if (micro.masked() == 0) ++result.batches_without_mask;
    if (options_.loss_normalisation == LossNormalisation::kPerRank) model_->zero_sums(ops_);
    run_micro_batch(batch, i);
    if (options_.loss_normalisation == LossNormalisation::kPerRank) {
      const auto sums = download_sums();
      own_losses_.mlm += sums[0] / (static_cast<double>(micro.masked()) + kReferenceDenominatorGuard);
      own_losses_.nsp += sums[1] / static_cast<double>(micro.sequences());
    }
  }
  if (options_.loss_normalisation == LossNormalisation::kGlobal) {
    const auto sums = download_sums();
    own_losses_ = {.mlm = sums[0], .nsp = sums[1]};
  }
  Parameters& parameters = model_->parameters();
  if (total_gradient_) ops_.scaled_copy({.y = parameters.all_gradients(), .x = total_gradient_, .scale = {}});
  ops_.context().synchronize();
  result.forward_backward_s = seconds_since(start);

  const auto reduce_start = Clock::now();
  const Losses losses = reduce_losses(batch, result);
  result.loss = losses.loss;
  result.mlm_loss = losses.mlm;
  result.nsp_loss = losses.nsp;
  result.tokens = batch.global_tokens;
  result.masked = batch.global_masked;
  result.learning_rate = static_cast<double>(optimizer_->scalars(batch.step)[kLearningRate]);
  if (!result.bad_value.empty()) return result;
  if (communicator_.size() > 1) {
    const Tensor gradients = parameters.all_gradients();
    communicator_.all_reduce_sum(std::span<float>(gradients.data<float>(), static_cast<std::size_t>(gradients.elements())));
  }
  result.reduce_s = seconds_since(reduce_start);

  const auto optimizer_start = Clock::now();
  const UpdateResult update = optimizer_->update(
      ops_, parameters, batch.step, options_.clip == ClipOrder::kAfterReduce ? LambOptimizer::Clip::kYes : LambOptimizer::Clip::kNo);
  result.gradient_norm = update.gradient_norm;
  result.optimizer_s = seconds_since(optimizer_start);
  if (update.bad_parameter >= 0) {
    result.bad_value = "gradient of " + parameters.table().parameters()[static_cast<std::size_t>(update.bad_parameter)].name;
  }
  return result;
}

EvaluationResult Engine::evaluate(const std::vector<PackedBatch>& batches) {
  model_->zero_sums(ops_);
  std::array<std::int64_t, 2> counts{};  // masked, samples
  for (const PackedBatch& batch : batches) {
    const BatchView view = parts_.batches->upload({batch});
    model_->forward({.ops = ops_,
                     .arena = model_->arena(),
                     .parameters = model_->parameters(),
                     .batch = view,
                     .training = false,
                     .on_gradient_ready = {}});
    parts_.batches->consumed();
    counts[0] += batch.masked();
    counts[1] += batch.sequences();
  }
  auto sums = download_sums();
  communicator_.all_reduce_sum(std::span<double>(sums));
  communicator_.all_reduce_sum(std::span<std::int64_t>(counts));
  const double masked = static_cast<double>(std::max<std::int64_t>(counts[0], 1));
  const double samples = static_cast<double>(std::max<std::int64_t>(counts[1], 1));
  return {.accuracy = sums[2] / masked,
          .correct = static_cast<std::int64_t>(sums[2]),
          .masked = counts[0],
          .samples = counts[1],
          .mlm_loss = sums[0] / masked,
          .nsp_loss = sums[1] / samples,
          .nsp_accuracy = sums[3] / samples};
}

template <class F>
void Engine::for_each_master(const F& f) {
  const Parameters& parameters = model_->parameters();
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.table().parameters().size(); ++i) {
    const Tensor master = parameters.parameter_master(i);
    values.resize(static_cast<std::size_t>(master.elements()));
    ops_.context().read(values.data(), master);
    ops_.context().synchronize();
    f(values);
  }
}

std::string Engine::weight_digest() {
  Digest digest(Digest::Algorithm::kSha256);
  for_each_master([&](const std::vector<float>& values) { digest.update(values.data(), values.size() * sizeof(float)); });
  return digest.hex();
}

std::uint64_t Engine::weight_checksum() {
  std::uint64_t sum = 0;
  std::uint64_t before = 0;
  for_each_master([&](const std::vector<float>& values) {
    std::uint64_t own = 0;
#pragma omp parallel for reduction(+ : own)
    for (std::size_t i = 0; i < values.size(); ++i) own += std::bit_cast<std::uint32_t>(values[i]) * (2 * (before + i) + 3);
    sum += own;
    before += values.size();
  });
  return sum;
}

}  // namespace flashbert
