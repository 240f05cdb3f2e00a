#include "commands/dry_run.h"

#include "core/log.h"
#include "core/memory.h"
#include "report/evaluation_points.h"
#include "train/run_inputs.h"
#include "train/settings_check.h"
#include "train/shared_seed.h"

namespace flashbert {
namespace {

void print_plan(const TrainSettings& settings, const RunInputs& inputs, Ops& ops) {
  constexpr std::int64_t kShownPoints = 6;
  const ParameterTable table(settings.model);
  fmt::print("parameters        {} in {}\n", table.elements(), table.group_text());
  const ArenaPlan memory = EngineParts(inputs.batch.engine, ops).plan;
  fmt::print("memory plan\n{}", memory.text());
  const std::int64_t free = available_memory_bytes();
  if (memory.total_bytes() > free) {
    spdlog::warn("this machine has {:.1f} MiB free: a run would be refused here", static_cast<double>(free) / (1 << 20));
  }
  for (const auto& [name, limit] : {std::pair{"max-steps", settings.max_steps}, std::pair{"max-samples", settings.max_samples}}) {
    fmt::print("{:<17} {}\n", name, limit > 0 ? std::to_string(limit) : "no limit");
  }
  if (inputs.eval_interval == 0) return;
  fmt::print("evaluation        every {} samples; the first after these steps (samples):", inputs.eval_interval);
  for (std::int64_t k = 1; k <= kShownPoints; ++k) {
    const std::int64_t step = evaluation_step(k, inputs.eval_interval, settings.global_batch);
    fmt::print(" {} ({})", step, step * settings.global_batch);
  }
  fmt::print("\n");
}

}  // namespace

void run_dry(const TrainSettings& settings, const ConfigText& config_text, Ranks& ranks) {
  validate(settings, ranks.size());
  const std::uint64_t seed = shared_seed(settings.seed, ranks);
  const Backend backend = make_backend(settings, ranks);
  if (ranks.root()) spdlog::info("{}", backend.note);
  const RunInputs inputs = open_run_inputs(settings, config_text({}), backend, ranks);
  if (!ranks.root()) return;
  fmt::print("{}\n", config_text(decided_values(settings, seed, backend, inputs.batch, ranks.size())));
  print_plan(settings, inputs, *backend.ops);
}

}  // namespace flashbert
