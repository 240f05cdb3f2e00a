#include "bench/bench_step.h"

#include <algorithm>
#include <random>

#include "core/clock.h"
#include "data/wikipedia_lengths.h"
#include "model/cost_model.h"
#include "train/engine.h"

namespace flashbert {
namespace {

/// 15 % of the longest sequence, as the benchmark masks.
std::int64_t most_masked(std::int64_t seq_len) { return std::max<std::int64_t>(1, (seq_len * 15 + 50) / 100); }

/// Batches of random samples, the same for the same shape; lengths from evenly spread quantiles in random order.
class RandomBatches {
 public:
  RandomBatches(const StepBenchOptions& shape, std::int64_t micro_batch) {
    std::mt19937_64 generator(1);
    const std::int64_t most = most_masked(shape.seq_len);
    constexpr int kBatches = 8;
    for (int b = 0; b < kBatches; ++b) {
      StepBatch& step = steps_.emplace_back();
      BatchCounts& counts = counts_.emplace_back();
      step.step = b;
      for (std::int64_t slot = 0; slot < shape.batch; ++slot) {
        if (slot % micro_batch == 0) step.micro_batches.emplace_back().clear();
        append(shape, most, static_cast<std::uint64_t>(b) * static_cast<std::uint64_t>(shape.batch) + static_cast<std::uint64_t>(slot),
               generator, step, counts);
      }
      for (PackedBatch& batch : step.micro_batches) batch.finish();
    }
  }
  [[nodiscard]] StepBatch& step(std::size_t i) { return steps_[i % steps_.size()]; }
  [[nodiscard]] BatchCounts mean_counts() const {
    BatchCounts mean;
    const double share = 1.0 / static_cast<double>(counts_.size());
    for (const BatchCounts& c : counts_) {
      mean.tokens += c.tokens * share;
      mean.squared_lengths += c.squared_lengths * share;
      mean.masked += c.masked * share;
      mean.sequences += c.sequences * share;
      mean.head_row_lengths += c.head_row_lengths * share;
    }
    return mean;
  }

 private:
  static void append(const StepBenchOptions& shape, std::int64_t most, std::uint64_t index, std::mt19937_64& generator, StepBatch& step,
                     BatchCounts& counts) {
    const double quantile = std::uniform_real_distribution<double>(0.0, 1.0)(generator);
    const std::int64_t length = wikipedia_length(std::min(quantile, 0.999999), shape.seq_len);
    const std::int64_t masked = std::min(masked_count(length, most), length - 1);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::vector<std::uint8_t> segments(ids.size(), 0);
    std::uniform_int_distribution<std::int32_t> id(5, static_cast<std::int32_t>(shape.model.vocab) - 1);
    for (std::int32_t& value : ids) value = id(generator);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(length) - 1);
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i) + 1;
    std::shuffle(positions.begin(), positions.end(), generator);
    positions.resize(static_cast<std::size_t>(masked));
    std::sort(positions.begin(), positions.end());
    std::vector<std::int32_t> labels(positions.size());
    for (std::int32_t& value : labels) value = id(generator);
    step.micro_batches.back().append({ids, segments, positions, labels, static_cast<std::int32_t>(generator() & 1U)}, index);
    step.global_masked += masked;
    step.global_tokens += length;
    counts.tokens += static_cast<double>(length);
    counts.squared_lengths += static_cast<double>(length * length);
    counts.masked += static_cast<double>(masked);
    counts.sequences += 1.0;
    counts.head_row_lengths += static_cast<double>(length * (masked + 1));
  }
  std::vector<StepBatch> steps_;
  std::vector<BatchCounts> counts_;
};

/// Seconds of the steps that count.
struct StepTimes {
  std::vector<double> step, forward_backward, optimizer;
};

BenchRow step_row(const StepBenchOptions& shape, const BatchCounts& counts, const StepTimes& times, double peak) {
  const double seconds = median(times.step);
  const double forward_backward_s = median(times.forward_backward);
  const double executed_flops = executed_training_flops(shape.model, counts);
  return {"step",
          {{"seq_per_s", static_cast<double>(shape.batch) / seconds},
           {"tokens_per_s", counts.tokens / seconds},
           {"step_ms_median", 1e3 * seconds},
           {"forward_backward_ms", 1e3 * forward_backward_s},
           {"optimizer_ms", 1e3 * median(times.optimizer)},
           {"mfu", training_flops(shape.model, counts) / seconds / peak},
           {"executed_share_of_peak", executed_flops / seconds / peak},
           {"forward_backward_share_of_peak", executed_flops / forward_backward_s / peak},
           {"peak_gflops", peak * 1e-9},
           {"tokens_per_step", counts.tokens},
           {"steps", static_cast<double>(times.step.size())}}};
}

}  // namespace

std::vector<BenchRow> bench_step(const BenchOptions& options, const StepBenchOptions& shape) {
  shape.model.validate();
  const Backend backend = bench_backend(options);
  const auto ranks = make_self_ranks();
  const auto collectives = make_self_collectives();
  const std::int64_t micro = shape.micro_batch > 0 ? shape.micro_batch : shape.batch;
  check<ConfigError>(shape.batch % micro == 0, "batch {} is not a multiple of micro-batch {}", shape.batch, micro);
  RandomBatches batches(shape, micro);
  Engine engine({.model = shape.model,
                 .optimizer = {.lr = 1e-4, .lr_total_steps = 1000000},
                 .compute = backend.compute,
                 .capacity = {.sequences = micro,
                              .tokens = micro * shape.seq_len,
                              .masked = micro * most_masked(shape.seq_len),
                              .seq_len = shape.seq_len},
                 .use = Parameters::Use::kTraining,
                 .global_batch = shape.batch,
                 .accumulation = shape.batch / micro,
                 .seed = 1},
                *backend.ops, {.ranks = *ranks, .collectives = *collectives});
  engine.model().parameters().initialise(*backend.ops, 1);
  constexpr std::size_t kWarmUp = 3;
  for (std::size_t i = 0; i < kWarmUp; ++i) static_cast<void>(engine.train_step(batches.step(i)));
  double peak = peak_flops(backend);
  StepTimes times;
  for (const auto start = Clock::now(); times.step.size() < 5 || seconds_since(start) < options.seconds;) {
    const auto begin = Clock::now();
    const StepResult result = engine.train_step(batches.step(times.step.size()));
    times.step.push_back(seconds_since(begin));
    times.forward_backward.push_back(result.forward_backward_s);
    times.optimizer.push_back(result.optimizer_s);
  }
  peak = std::max(peak, peak_flops(backend));
  BenchRow row = step_row(shape, batches.mean_counts(), times, peak);
  row.values.emplace_back("planned_mib", static_cast<double>(engine.plan().total_bytes()) / (1 << 20));
  return {row};
}

}  // namespace flashbert
