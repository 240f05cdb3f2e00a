#include "train/bench.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "comm/communicator.h"
#include "core/clock.h"
#include "core/log.h"
#include "data/loader.h"
#include "data/wikipedia_lengths.h"
#include "kernels/cpu/peak/peak.h"
#include "model/cost_model.h"
#include "train/engine.h"
#include "train/setup.h"

namespace flashbert {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {

/// Median seconds of f over at least five calls and until the time is used, after one call that is not counted.
double time_median(double seconds, const std::function<void()>& f) {
  f();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < 5 || seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    f();
    times.push_back(seconds_since(begin));
  }
  return median(times);
}

Setup bench_setup(const BenchOptions& options) {
  TrainSettings settings;
  settings.threads = options.threads;
  settings.precision = options.precision;
  const auto communicator = make_self_communicator();
  return make_setup(settings, *communicator);
}

/// Benches take the larger of two measurements, before and after the rows: a neighbour may slow either.
double machine_peak(const Setup& setup) {
  return cpu::peak_gflops(dynamic_cast<const CpuContext&>(*setup.context), setup.compute, {.threads = setup.threads}) * 1e9;
}

/// One buffer of random values in the compute type.
class RandomTensor {
 public:
  RandomTensor(Context& context, Dtype dtype, const Shape& shape, float scale) {
    id_ = plan_.book("bench", "tensor", dtype, shape);
    arena_ = std::make_unique<Arena>(plan_, context);
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    const Tensor t = tensor();
    for (std::int64_t i = 0; i < t.elements(); ++i) {
      const float value = uniform(generator);
      if (dtype == Dtype::kBf16) {
        t.data<bf16>()[i] = to_bf16(value);
      } else if (dtype == Dtype::kF32) {
        t.data<float>()[i] = value;
      }
    }
  }
  [[nodiscard]] Tensor tensor() const { return arena_->tensor(id_); }

 private:
  ArenaPlan plan_;
  BufferId id_;
  std::unique_ptr<Arena> arena_;
};

BenchRow product_row(const std::string& name, double seconds, double flops, double peak) {
  return {name, {{"ms", 1e3 * seconds}, {"gflops", flops / seconds * 1e-9}, {"share_of_peak", flops / seconds / peak}}};
}

}  // namespace

BenchMachine bench_machine(const BenchOptions& options) {
  const Setup setup = bench_setup(options);
  spdlog::info("{}", setup.note);
  return {.precision = std::string(name_of(setup.compute)), .instruction_set = setup.context->arithmetic(), .threads = setup.threads};
}

std::vector<BenchRow> bench_gemm(const BenchOptions& options, const GemmBenchOptions& shape) {
  const Setup setup = bench_setup(options);
  Ops& ops = *setup.ops;
  double peak = machine_peak(setup);
  const LinearShape linear = {
      .in = shape.in, .out = shape.out, .max_rows = shape.rows, .compute = setup.compute, .output = setup.compute, .training = true};
  const RandomTensor x(*setup.context, setup.compute, {shape.rows, shape.in}, 1.0F);
  const RandomTensor y(*setup.context, setup.compute, {shape.rows, shape.out}, 1.0F);
  const RandomTensor dx(*setup.context, setup.compute, {shape.rows, shape.in}, 1.0F);
  const RandomTensor weight(*setup.context, setup.compute, {shape.out, shape.in}, 0.1F);
  const RandomTensor dweight(*setup.context, Dtype::kF32, {shape.out, shape.in}, 0.0F);
  const RandomTensor bias(*setup.context, Dtype::kF32, {shape.out}, 0.1F);
  const RandomTensor pack(*setup.context, Dtype::kU8, {std::max<std::int64_t>(ops.linear_pack_bytes(linear), 1)}, 0.0F);
  const LinearWeights weights = {weight.tensor(), ops.linear_pack_bytes(linear) > 0 ? pack.tensor() : Tensor{}};
  ops.linear_pack({weights});
  const double flops = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) * static_cast<double>(shape.out);
  const double forward = time_median(
      options.seconds, [&] { ops.linear_forward({.y = y.tensor(), .x = x.tensor(), .weights = weights, .bias = bias.tensor()}); });
  const double input_gradient =
      time_median(options.seconds, [&] { ops.linear_input_gradient({.dx = dx.tensor(), .dy = y.tensor(), .weights = weights}); });
  const double weight_gradient = time_median(
      options.seconds, [&] { ops.linear_weight_gradient({.dweight = dweight.tensor(), .dbias = {}, .dy = y.tensor(), .x = x.tensor()}); });
  peak = std::max(peak, machine_peak(setup));
  return {{"peak", {{"gflops", peak * 1e-9}}},
          product_row("forward", forward, flops, peak),
          product_row("input_gradient", input_gradient, flops, peak),
          product_row("weight_gradient", weight_gradient, flops, peak)};
}

std::vector<BenchRow> bench_attention(const BenchOptions& options, const AttentionBenchOptions& shape) {
  const Setup setup = bench_setup(options);
  Ops& ops = *setup.ops;
  double peak = machine_peak(setup);
  const std::int64_t tokens = shape.batch * shape.seq_len;
  const Shape heads = {tokens, shape.heads, shape.head_dim};
  const RandomTensor qkv(*setup.context, setup.compute, {tokens, 3 * shape.heads * shape.head_dim}, 1.0F);
  const RandomTensor dqkv(*setup.context, setup.compute, {tokens, 3 * shape.heads * shape.head_dim}, 1.0F);
  const RandomTensor out(*setup.context, setup.compute, heads, 1.0F);
  const RandomTensor dout(*setup.context, setup.compute, heads, 1.0F);
  const RandomTensor lse(*setup.context, Dtype::kF32, {shape.heads, tokens}, 0.0F);
  const RandomTensor keep(*setup.context, Dtype::kU32, {tokens, shape.heads, keep_words(shape.seq_len)}, 0.0F);
  const RandomTensor cu(*setup.context, Dtype::kI32, {shape.batch + 1}, 0.0F);
  const RandomTensor position(*setup.context, Dtype::kI32, {tokens}, 0.0F);
  const RandomTensor sample(*setup.context, Dtype::kU64, {shape.batch}, 0.0F);
  for (std::int64_t b = 0; b <= shape.batch; ++b) cu.tensor().data<std::int32_t>()[b] = static_cast<std::int32_t>(b * shape.seq_len);
  for (std::int64_t t = 0; t < tokens; ++t) position.tensor().data<std::int32_t>()[t] = static_cast<std::int32_t>(t % shape.seq_len);
  const std::int64_t width = shape.heads * shape.head_dim;
  const auto part = [&](const RandomTensor& packed, std::int64_t i) {
    return packed.tensor().columns(i * width, width).split_columns(shape.heads, shape.head_dim);
  };
  const AttentionInputs inputs = {.query = part(qkv, 0),
                                  .key = part(qkv, 1),
                                  .value = part(qkv, 2),
                                  .cu_queries = cu.tensor(),
                                  .cu_keys = cu.tensor(),
                                  .query_position = position.tensor(),
                                  .sample_index = sample.tensor(),
                                  .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                                  .dropout = {.rate = shape.dropout, .seed = 1, .layer = 0, .site = DropoutSite::kAttention}};
  const double square = static_cast<double>(tokens) * static_cast<double>(shape.seq_len) * static_cast<double>(width);
  const double forward = time_median(options.seconds, [&] {
    ops.attention_forward({.out = out.tensor(), .lse = lse.tensor(), .keep_bits = keep.tensor(), .inputs = inputs});
  });
  const double backward = time_median(options.seconds, [&] {
    ops.attention_backward({.dquery = part(dqkv, 0),
                            .dkey = part(dqkv, 1),
                            .dvalue = part(dqkv, 2),
                            .dout = dout.tensor(),
                            .out = out.tensor(),
                            .lse = lse.tensor(),
                            .keep_bits = keep.tensor(),
                            .inputs = inputs});
  });
  peak = std::max(peak, machine_peak(setup));
  return {{"peak", {{"gflops", peak * 1e-9}}},
          product_row("forward", forward, 4.0 * square, peak),
          product_row("backward", backward, 10.0 * square, peak),
          product_row("both", forward + backward, 14.0 * square, peak)};
}

namespace {

/// Batches of random samples, the same for the same shape; lengths from evenly spread quantiles in random order.
class RandomBatches {
 public:
  RandomBatches(const StepBenchOptions& shape, std::int64_t micro_batch) {
    std::mt19937_64 generator(1);
    const std::int64_t most = std::max<std::int64_t>(1, (shape.seq_len * 15 + 50) / 100);
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

}  // namespace

std::vector<BenchRow> bench_step(const BenchOptions& options, const StepBenchOptions& shape) {
  shape.model.validate();
  const Setup setup = bench_setup(options);
  const auto communicator = make_self_communicator();
  const std::int64_t micro = shape.micro_batch > 0 ? shape.micro_batch : shape.batch;
  check<ConfigError>(shape.batch % micro == 0, "batch {} is not a multiple of micro-batch {}", shape.batch, micro);
  RandomBatches batches(shape, micro);
  const std::int64_t masked = micro * std::max<std::int64_t>(1, (shape.seq_len * 15 + 50) / 100);
  Engine engine({.model = shape.model,
                 .optimizer = {.lr = 1e-4, .lr_total_steps = 1000000},
                 .compute = setup.compute,
                 .capacity = {.sequences = micro, .tokens = micro * shape.seq_len, .masked = masked, .seq_len = shape.seq_len},
                 .use = Parameters::Use::kTraining,
                 .global_batch = shape.batch,
                 .accumulation = shape.batch / micro,
                 .seed = 1},
                *setup.ops, *communicator);
  engine.model().parameters().initialise(*setup.ops, 1);
  std::vector<double> step_s;
  std::vector<double> forward_backward_s;
  std::vector<double> optimizer_s;
  constexpr std::size_t kWarmUp = 3;
  for (std::size_t i = 0; i < kWarmUp; ++i) static_cast<void>(engine.train_step(batches.step(i)));
  double peak = machine_peak(setup);
  for (const auto start = Clock::now(); step_s.size() < 5 || seconds_since(start) < options.seconds;) {
    const auto begin = Clock::now();
    const StepResult result = engine.train_step(batches.step(step_s.size()));
    step_s.push_back(seconds_since(begin));
    forward_backward_s.push_back(result.forward_backward_s);
    optimizer_s.push_back(result.optimizer_s);
  }
  peak = std::max(peak, machine_peak(setup));
  const BatchCounts counts = batches.mean_counts();
  const double seconds = median(step_s);
  return {{"step",
           {{"seq_per_s", static_cast<double>(shape.batch) / seconds},
            {"tokens_per_s", counts.tokens / seconds},
            {"step_ms_median", 1e3 * seconds},
            {"forward_backward_ms", 1e3 * median(forward_backward_s)},
            {"optimizer_ms", 1e3 * median(optimizer_s)},
            {"mfu", training_flops(shape.model, counts) / seconds / peak},
            {"executed_share_of_peak", executed_training_flops(shape.model, counts) / seconds / peak},
            {"forward_backward_share_of_peak", executed_training_flops(shape.model, counts) / median(forward_backward_s) / peak},
            {"peak_gflops", peak * 1e-9},
            {"tokens_per_step", counts.tokens},
            {"steps", static_cast<double>(step_s.size())},
            {"planned_mib", static_cast<double>(engine.plan().total_bytes()) / (1 << 20)}}}};
}

std::vector<BenchRow> bench_loader(const BenchOptions& options, const LoaderBenchOptions& shape) {
  const DataSet data = open_data_set(shape.data, shape.max_positions);
  const std::int64_t width = data.seq_len > 0 ? data.seq_len : shape.max_positions;
  Loader loader(data, {.seed = 1,
                       .global_batch = shape.batch,
                       .micro_batch = shape.batch,
                       .rank = 0,
                       .ranks = 1,
                       .first_step = 0,
                       .capacity = {.sequences = shape.batch, .tokens = shape.batch * width, .masked = shape.batch * width / 4},
                       .limits = {.vocab = 0, .max_positions = shape.max_positions, .type_vocab = 2}});
  const auto start = Clock::now();
  loader.start();
  static_cast<void>(loader.next());
  const double first_s = seconds_since(start);
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  const auto begin = Clock::now();
  while (steps < 5 || seconds_since(begin) < options.seconds) {
    tokens += loader.next().global_tokens;
    ++steps;
  }
  const double elapsed = seconds_since(begin);
  CpuContext context(1);
  constexpr double kBytesPerToken = 2 * 4 + 4;  // ids, segments, positions and sequences as the batch holds them: a lower bound
  const double bandwidth = cpu::triad_gbytes_per_second(context, {.threads = 1}) * 1e9;
  return {{"loader",
           {{"seq_per_s", static_cast<double>(steps * shape.batch) / elapsed},
            {"tokens_per_s", static_cast<double>(tokens) / elapsed},
            {"first_batch_ms", 1e3 * first_s},
            {"share_of_bandwidth", static_cast<double>(tokens) * kBytesPerToken / elapsed / bandwidth}}}};
}

}  // namespace flashbert
