#include "train/batch_split.h"

#include <algorithm>

#include "core/error.h"

namespace flashbert {
namespace {

constexpr std::int64_t kMostTokens = 8192;  // more at once gains nothing on a CPU, measured by bench step
constexpr double kMemoryShare = 0.6;

/// "448 and 456": the multiples of unit on both sides of a value that is none; only the one above where the other would be 0.
std::string nearest_multiples(std::int64_t value, std::int64_t unit) {
  const std::int64_t below = value / unit * unit;
  return below > 0 ? fmt::format("{} and {}", below, below + unit) : std::to_string(unit);
}

/// Sets the split to the largest micro-batch that keeps both limits; one sample is the least, whether it fits is seen when memory is taken.
void fit_micro_batch(BatchPlan& plan, const TrainSettings& s, const Machine& machine, const DataSets& sets, Ops& ops) {
  const std::int64_t own = s.global_batch / machine.ranks;
  const double budget = kMemoryShare * static_cast<double>(machine.free_bytes) / machine.local_ranks;
  for (std::int64_t micro = own; micro >= 1; --micro) {
    if (own % micro != 0) continue;
    plan.engine.accumulation = own / micro;
    plan.engine.capacity = row_capacity(s, sets, micro);
    if (plan.engine.capacity.tokens > kMostTokens && micro > 1) continue;
    const std::int64_t bytes = EngineParts(plan.engine, ops).plan.total_bytes();
    if (static_cast<double>(bytes) > budget && micro > 1) continue;
    plan.split = {micro, own / micro};
    plan.note = fmt::format("micro-batch {} chosen: at most {} tokens at once, plan of {:.0f} MiB", micro, plan.engine.capacity.tokens,
                            static_cast<double>(bytes) / (1 << 20));
    return;
  }
}

std::string world_source(int ranks) { return ranks == 1 ? "one process, no launcher" : "the MPI world"; }

}  // namespace

BatchSplit split_batch(const TrainSettings& s, int ranks) {
  const std::int64_t global = s.global_batch;
  check<ConfigError>(global % ranks == 0, "global-batch {} does not divide among {} ranks ({}); the nearest that do: {}", global, ranks,
                     world_source(ranks), nearest_multiples(global, ranks));
  const std::int64_t own = global / ranks;
  if (s.micro_batch == 0 && s.accum == 0) return {};
  if (s.micro_batch == 0) {
    check<ConfigError>(own % s.accum == 0,
                       "global-batch {} over {} ranks is {} a rank, which accum {} does not divide; the nearest global batches: {}", global,
                       ranks, own, s.accum, nearest_multiples(global, ranks * s.accum));
    return {own / s.accum, s.accum};
  }
  if (s.accum > 0) {
    check<ConfigError>(s.micro_batch * s.accum * ranks == global,
                       "micro-batch {} x accum {} x {} ranks ({}) = {}, but global-batch is {}; drop one of the three, it is derived",
                       s.micro_batch, s.accum, ranks, world_source(ranks), s.micro_batch * s.accum * ranks, global);
    return {s.micro_batch, s.accum};
  }
  const std::int64_t unit = s.micro_batch * ranks;
  check<ConfigError>(global % unit == 0,
                     "global-batch {} is not a multiple of micro-batch {} x {} ranks ({}) = {}; the nearest that are: {}", global,
                     s.micro_batch, ranks, world_source(ranks), unit, nearest_multiples(global, unit));
  return {s.micro_batch, global / unit};
}

RowCapacity row_capacity(const TrainSettings& s, const DataSets& sets, std::int64_t micro_batch) {
  std::int64_t seq_len = 0;
  std::int64_t predictions = s.max_predictions;
  bool widths_known = true;
  for (const DataSet* const set : sets) {
    widths_known = widths_known && set->seq_len > 0;
    seq_len = std::max(seq_len, set->seq_len);
    if (s.max_predictions == 0) predictions = std::max(predictions, set->max_predictions);
    check<InputError>(s.max_predictions == 0 || set->max_predictions <= s.max_predictions,
                      "{} has {} predictions a row, max-predictions is {}", set->shards.front().path.string(), set->max_predictions,
                      s.max_predictions);
  }
  if (!widths_known) seq_len = s.model.max_positions;
  if (s.max_predictions == 0 && !widths_known) predictions = std::max(predictions, (seq_len * 16 + 99) / 100 + 1);
  return {.sequences = micro_batch, .tokens = micro_batch * seq_len, .masked = micro_batch * predictions, .seq_len = seq_len};
}

BatchPlan plan_batch(const TrainSettings& s, const Machine& machine, const DataSets& sets, Ops& ops) {
  BatchPlan plan{.split = split_batch(s, machine.ranks),
                 .engine = {.model = s.model,
                            .optimizer = s.optimizer,
                            .compute = machine.compute,
                            .capacity = {},
                            .use = Parameters::Use::kTraining,
                            .global_batch = s.global_batch,
                            .accumulation = 1,
                            .clip = s.clip,
                            .loss_normalisation = s.loss_normalisation,
                            .seed = s.seed},
                 .note = {}};
  if (plan.split.micro_batch == 0) fit_micro_batch(plan, s, machine, sets, ops);
  plan.engine.capacity = row_capacity(s, sets, plan.split.micro_batch);
  plan.engine.accumulation = plan.split.accumulation;
  return plan;
}

}  // namespace flashbert
