#include "train/engine.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>

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
  record = std::make_unique<StepRecord>(plan);
  batches = std::make_unique<BatchSlots>(BatchLayout(options.capacity, options.model, ops), plan);
  const std::int64_t bytes = ops.workspace_bytes(ops_plan(options.model, options.compute, options.capacity, options.use));
  workspace = plan.book("workspace", "ops", Dtype::kU8, {bytes});
  checksum = plan.book("workspace", "checksum", Dtype::kU64, {1});
}

Engine::Engine(const EngineOptions& options, Ops& ops, Peers peers)
    : options_(options),
      ops_(ops),
      ranks_(peers.ranks),
      collectives_(peers.collectives),
      parts_(options, ops),
      model_(parts_.model.get()),
      optimizer_(parts_.optimizer.get()),
      arena_(std::make_unique<Arena>(parts_.plan, ops.context())) {
  model_->bind(*arena_);
  parts_.record->bind(*arena_);
  optimizer_->bind(*arena_, parts_.record->norm());
  ops.prepare(ops_plan(options.model, options.compute, options.capacity, options.use), arena_->tensor(parts_.workspace));
  if (parts_.total_gradient) {
    total_gradient_ = arena_->tensor(*parts_.total_gradient).rows(0, model_->parameters().all_gradients().extent(0));
  }
  parts_.batches->bind(*arena_, ops.context());
  pinned_ = ops.context().allocate((kMostFlights + 1) * sizeof(StepRecordValues), MemoryKind::kPinned);
  for (std::size_t i = 0; i < kMostFlights; ++i) {
    flights_[i].record = pinned_.tensor(Dtype::kF64, parts_.record->all().shape(), static_cast<std::int64_t>(i * sizeof(StepRecordValues)));
    flights_[i].arrived = ops.context().make_event();
  }
}

double Engine::replicas() const { return static_cast<double>(options_.accumulation) * ranks_.size(); }

MicroBatch Engine::micro_batch(const StepBatch& batch, const PackedBatch& packed, const StepFlags& flags) const {
  MicroBatch micro{.packed = packed, .flags = flags, .lamb_scalars = optimizer_->scalars(batch.step)};
  if (options_.loss_normalisation == LossNormalisation::kGlobal) {
    micro.scalars[kMlmScale] = batch.global_masked > 0 ? static_cast<float>(1.0 / static_cast<double>(batch.global_masked)) : 0.0F;
    micro.scalars[kNspScale] = static_cast<float>(1.0 / static_cast<double>(options_.global_batch));
  } else {
    micro.loss_divisors = {static_cast<double>(packed.masked()) + kReferenceDenominatorGuard, static_cast<double>(packed.sequences())};
    micro.scalars[kMlmScale] = static_cast<float>(1.0 / (micro.loss_divisors[0] * replicas()));
    micro.scalars[kNspScale] = static_cast<float>(1.0 / (micro.loss_divisors[1] * replicas()));
  }
  return micro;
}

void Engine::run_micro_batch(const StepBatch& batch, std::size_t index, const StepFlags& flags) {
  device_batch_ = parts_.batches->upload(micro_batch(batch, batch.micro_batches[index], flags));
  const bool own_sum = static_cast<bool>(total_gradient_);
  const bool per_rank = options_.loss_normalisation == LossNormalisation::kPerRank;
  const Pass pass{.ops = ops_,
                  .arena = model_->arena(),
                  .parameters = model_->parameters(),
                  .batch = device_batch_.view,
                  .training = true,
                  .seed = options_.seed,
                  .accumulate = index == 0 || own_sum ? Accumulate::kOverwrite : Accumulate::kAdd,
                  .on_gradient_ready = {}};
  if (index == 0 || per_rank) model_->zero_sums(ops_);
  model_->forward(pass);
  model_->backward(pass);
  if (options_.clip == ClipOrder::kBeforeReduce) clip_before_reduce(index);
  // Over the global batch the sums run on through the step and are divided by what all ranks know: by 1 here.
  if (per_rank || index + 1 == batch.micro_batches.size()) add_losses();
}

void Engine::add_losses() {
  const LossSums sums = model_->sums();
  const Tensor losses = parts_.record->losses();
  ops_.add_quotients({.sum = losses.rows(0, 1), .value = sums.mlm.nll_sum, .divisor = device_batch_.loss_divisors.rows(0, 1)});
  ops_.add_quotients({.sum = losses.rows(1, 1), .value = sums.nsp.nll_sum, .divisor = device_batch_.loss_divisors.rows(1, 1)});
}

void Engine::clip_before_reduce(std::size_t micro_batch) {
  // Gradients carry 1 / (ranks x micro-batches) already, so the limit is scaled alike: each replica's own mean is clipped.
  Parameters& parameters = model_->parameters();
  optimizer_->norm(ops_, parameters, options_.optimizer.clip_norm / replicas());
  const Tensor gradients = parameters.all_gradients();
  ops_.scaled_copy({.y = total_gradient_ ? total_gradient_ : gradients,
                    .x = gradients,
                    .scale = optimizer_->result().clip_scale,
                    .accumulate = total_gradient_ && micro_batch > 0 ? Accumulate::kAdd : Accumulate::kOverwrite});
}

void Engine::enqueue(const StepBatch& batch, const std::function<int()>& signal) {
  StepResult known;
  known.step = batch.step;
  known.learning_rate = static_cast<double>(optimizer_->scalars(batch.step)[kLearningRate]);
  known.tokens = batch.global_tokens;
  known.masked = batch.global_masked;
  const auto start = Clock::now();
  StepFlags flags;
  ops_.fill_zero(parts_.record->summed());
  for (std::size_t i = 0; i < batch.micro_batches.size(); ++i) {
    if (const int number = signal ? signal() : 0; number != 0) {
      (number == SIGINT ? flags.interrupts : flags.terminations) = 1.0;
      tell_flags(flags);
      break;
    }
    if (batch.micro_batches[i].masked() == 0) flags.batches_without_mask += 1.0;
    run_micro_batch(batch, i, flags);
    if (i + 1 == batch.micro_batches.size()) {
      ops_.context().copy(Stream::kCompute, parts_.record->flags(), device_batch_.flags);
      optimizer_->take_scalars(ops_.context(), device_batch_.lamb_scalars);
    }
    parts_.batches->consumed();
  }
  if (total_gradient_) ops_.scaled_copy({.y = model_->parameters().all_gradients(), .x = total_gradient_, .scale = {}});
  known.forward_backward_s = seconds_since(start);
  finish_step(known);
}

void Engine::enqueue_failure(std::int64_t step) {
  ops_.fill_zero(parts_.record->summed());
  tell_flags({.failures = 1.0});
  StepResult known;
  known.step = step;
  finish_step(known);
}

void* Engine::pinned_values(std::size_t index) const { return static_cast<StepRecordValues*>(pinned_.data()) + index; }

void Engine::tell_flags(const StepFlags& flags) {
  std::memcpy(pinned_values(kMostFlights), &flags, sizeof flags);
  ops_.context().copy(Stream::kCompute, parts_.record->flags(),
                      pinned_.tensor(Dtype::kF64, {kStepFlags}, static_cast<std::int64_t>(kMostFlights * sizeof(StepRecordValues))));
}

void Engine::finish_step(const StepResult& known) {
  check<BrokenPromise>(in_flight_ < kMostFlights, "step {}: {} steps are in flight already", known.step, in_flight_);
  Flight& flight = flights_[(oldest_ + in_flight_++) % kMostFlights];
  flight.result = known;
  const StepRecord& record = *parts_.record;

  const auto reduce_start = Clock::now();
  reduce();
  flight.result.reduce_s = seconds_since(reduce_start);

  const auto optimizer_start = Clock::now();
  Parameters& parameters = model_->parameters();
  const bool clips = options_.clip == ClipOrder::kAfterReduce;
  optimizer_->norm(ops_, parameters, clips ? options_.optimizer.clip_norm : std::numeric_limits<float>::max());
  ops_.hold_update({.held = record.held(), .first_bad = record.norm().first_bad, .finite = record.losses(), .zero = record.abandons()});
  optimizer_->apply(ops_, parameters);
  ops_.context().copy(Stream::kCompute, flight.record, record.all());
  ops_.context().record(*flight.arrived, Stream::kCompute);
  flight.result.optimizer_s = seconds_since(optimizer_start);
}

void Engine::reduce() {
  collectives_.all_reduce(parts_.record->summed());
  collectives_.all_reduce(model_->parameters().all_gradients());
}

std::optional<StepResult> Engine::take_finished() {
  const bool ready = in_flight_ == kMostFlights || (in_flight_ > 0 && ops_.context().reached(*flights_[oldest_].arrived));
  return ready ? drain_one() : std::nullopt;
}

std::optional<StepResult> Engine::drain_one() {
  if (in_flight_ == 0) return std::nullopt;
  const std::size_t index = oldest_;
  ops_.context().wait(*flights_[index].arrived);
  oldest_ = (oldest_ + 1) % kMostFlights;
  --in_flight_;
  return result_of(flights_[index], index);
}

StepResult Engine::train_step(const StepBatch& batch) {
  enqueue(batch);
  return *drain_one();
}

StepResult Engine::result_of(const Flight& flight, std::size_t index) const {
  StepRecordValues record;
  std::memcpy(&record, pinned_values(index), sizeof record);
  StepResult result = flight.result;
  if (options_.loss_normalisation == LossNormalisation::kGlobal) {
    result.mlm_loss = result.masked > 0 ? record.mlm_loss / static_cast<double>(result.masked) : 0.0;
    result.nsp_loss = record.nsp_loss / static_cast<double>(options_.global_batch);
  } else {
    result.mlm_loss = record.mlm_loss / replicas();
    result.nsp_loss = record.nsp_loss / replicas();
  }
  result.loss = result.mlm_loss + result.nsp_loss;
  result.batches_without_mask = static_cast<std::int64_t>(record.flags.batches_without_mask);
  result.signal = record.flags.terminations != 0.0 ? SIGTERM : record.flags.interrupts != 0.0 ? SIGINT : 0;
  result.failed_ranks = static_cast<std::int64_t>(record.flags.failures);
  if (!std::isfinite(result.mlm_loss)) result.bad_value = "masked-LM loss";
  if (!std::isfinite(result.nsp_loss)) result.bad_value = "next-sentence loss";
  if (!result.bad_value.empty()) return result;
  result.gradient_norm = static_cast<double>(record.norm);
  if (record.first_bad >= 0) {
    result.bad_value = "gradient of " + model_->parameters().table().parameters()[static_cast<std::size_t>(record.first_bad)].name;
  }
  return result;
}

std::array<double, 4> Engine::read_sums() {
  const LossSums sums = model_->sums();
  double mlm_nll = 0.0;
  double nsp_nll = 0.0;
  std::int64_t mlm_correct = 0;
  std::int64_t nsp_correct = 0;
  ops_.context().read(&mlm_nll, sums.mlm.nll_sum);
  ops_.context().read(&nsp_nll, sums.nsp.nll_sum);
  ops_.context().read(&mlm_correct, sums.mlm.correct);
  ops_.context().read(&nsp_correct, sums.nsp.correct);
  return {mlm_nll, nsp_nll, static_cast<double>(mlm_correct), static_cast<double>(nsp_correct)};
}

EvaluationResult Engine::evaluate(const std::vector<PackedBatch>& batches) {
  model_->zero_sums(ops_);
  std::array<std::int64_t, 2> counts{};  // masked, samples
  for (const PackedBatch& batch : batches) {
    const BatchView view = parts_.batches->upload({.packed = batch}).view;
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
  auto sums = read_sums();
  ranks_.all_reduce_sum(std::span<double>(sums));
  ranks_.all_reduce_sum(std::span<std::int64_t>(counts));
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
    f(values);
  }
}

std::string Engine::weight_digest() {
  Digest digest(Digest::Algorithm::kSha256);
  for_each_master([&](const std::vector<float>& values) { digest.update(values.data(), values.size() * sizeof(float)); });
  return digest.hex();
}

std::uint64_t Engine::weight_checksum() {
  const Parameters& parameters = model_->parameters();
  std::vector<ConstTensor> masters;
  for (std::size_t i = 0; i < parameters.table().parameters().size(); ++i) masters.emplace_back(parameters.parameter_master(i));
  const Tensor sum = arena_->tensor(parts_.checksum);
  ops_.checksum({.sum = sum, .tensors = masters});
  std::uint64_t value = 0;
  ops_.context().read(&value, sum);
  return value;
}

}  // namespace flashbert
