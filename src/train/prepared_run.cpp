#include "train/prepared_run.h"

#include <functional>

#include "comm/rank_agreement.h"
#include "core/build_info.h"
#include "core/log.h"
#include "core/memory.h"
#include "report/evaluation_points.h"
#include "report/results_folder.h"
#include "train/checkpoint.h"

namespace flashbert {
namespace {

std::string version_of_build() {
  std::string text;
  for (const auto& [name, version] : build_info()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, version);
  return text;
}

/// Every rank must run the same configuration with the same kernels; a difference would only show as weights that drift apart.
void check_same_everywhere(const std::string& config_text, const Context& context, const Communicator& communicator, Agreement& ranks) {
  check<ConfigError>(ranks.equal(std::hash<std::string>{}(config_text)),
                     "the ranks were started with different settings; give all the same options and environment");
  check<EnvironmentError>(ranks.equal(std::hash<std::string>{}(context.arithmetic())),
                          "the ranks' processors have different instruction sets (rank {} has {}); set FLASHBERT_MAX_ISA to the lowest",
                          communicator.rank(), context.arithmetic());
  check<EnvironmentError>(ranks.equal(std::hash<std::string>{}(version_of_build())),
                          "the ranks run different builds of flashbert or its libraries (rank {}: {})", communicator.rank(),
                          version_of_build());
}

void check_results(const TrainSettings& s, const Communicator& communicator) {
  check<ConfigError>(!s.out.empty(), "out is not set; give a folder for the results");
  if (communicator.root()) check_results_folder(s.out, s.overwrite ? ExistingResults::kOverwrite : ExistingResults::kRefuse);
  const std::filesystem::path trace = s.trace_samples;
  std::error_code ignored;
  if (!trace.empty() && communicator.root()) {
    check<ConfigError>(s.overwrite || !std::filesystem::exists(trace, ignored),
                       "trace-samples {} exists; choose another or add --overwrite", trace.string());
    check<ConfigError>(!is_result(s.out, trace), "trace-samples {} is a file of the run's own; choose another", trace.string());
  }
  for (const std::string& input : {s.init, s.train_data, s.eval_data}) {
    check<ConfigError>(input.empty() || trace.empty() || !lies_in(trace, input), "trace-samples {} lies in {}, which this run reads",
                       trace.string(), input);
    check<ConfigError>(input.empty() || !is_result(s.out, input), "--overwrite would remove {}, which this run reads; choose another --out",
                       input);
  }
}

void open_inputs(const TrainSettings& s, PreparedRun& run) {
  if (s.init != "random") check_checkpoint(s.init, ParameterTable(s.model));
  run.train = open_data_set(s.train_data, s.model.max_positions);
  if (s.eval_data.empty()) return;
  run.eval = open_data_set(s.eval_data, s.model.max_positions);
  check<InputError>(s.eval_samples <= run.eval->samples, "eval-samples is {}, {} holds {}", s.eval_samples, s.eval_data, run.eval->samples);
  run.eval_samples = s.eval_samples > 0 ? s.eval_samples : run.eval->samples;
}

/// All ranks take the least micro-batch that any of them would choose.
RunPlan agreed_plan(const TrainSettings& settings, const PreparedRun& run, const Setup& setup, const Communicator& communicator,
                    Agreement& ranks) {
  const Machine machine = {.ranks = communicator.size(),
                           .local_ranks = communicator.local_size(),
                           .compute = setup.compute,
                           .free_bytes = available_memory_bytes()};
  const DataSet* const eval = run.eval ? &*run.eval : nullptr;
  RunPlan plan;
  ranks.together([&] { plan = make_run_plan(settings, machine, run.train, eval, *setup.ops); });
  const std::int64_t least = ranks.least(plan.split.micro_batch);
  if (least == plan.split.micro_batch) return plan;
  TrainSettings agreed = settings;
  agreed.micro_batch = least;
  return make_run_plan(agreed, machine, run.train, eval, *setup.ops);
}

}  // namespace

PreparedRun prepare_run(const TrainSettings& settings, const std::string& config_text, const Setup& setup, Communicator& communicator) {
  Agreement ranks(communicator);
  check_same_everywhere(config_text, *setup.context, communicator, ranks);
  PreparedRun run;
  ranks.together([&] {
    if (!settings.dry_run) check_results(settings, communicator);
    open_inputs(settings, run);
  });
  run.plan = agreed_plan(settings, run, setup, communicator, ranks);
  if (communicator.root()) {
    spdlog::info("{} training samples in {} shards, {} evaluation samples", run.train.samples, run.train.shards.size(), run.eval_samples);
    spdlog::info("global batch {} = micro-batch {} x {} x {} ranks", settings.global_batch, run.plan.split.micro_batch,
                 run.plan.split.accumulation, communicator.size());
    if (!run.plan.micro_batch_note.empty()) spdlog::info("{}", run.plan.micro_batch_note);
  }
  return run;
}

void print_plan(const TrainSettings& settings, const PreparedRun& run, Ops& ops) {
  constexpr std::int64_t kShownPoints = 6;
  const ParameterTable table(settings.model);
  fmt::print("parameters        {} in {}\n", table.elements(), table.group_text());
  const ArenaPlan memory = EngineParts(run.plan.engine, ops).plan;
  fmt::print("memory plan\n{}", memory.text());
  const std::int64_t free = available_memory_bytes();
  if (memory.total_bytes() > free) {
    spdlog::warn("this machine has {:.1f} MiB free: a run would be refused here", static_cast<double>(free) / (1 << 20));
  }
  for (const auto& [name, limit] : {std::pair{"max-steps", settings.max_steps}, std::pair{"max-samples", settings.max_samples}}) {
    fmt::print("{:<17} {}\n", name, limit > 0 ? std::to_string(limit) : "no limit");
  }
  if (run.plan.eval_interval == 0) return;
  fmt::print("evaluation        every {} samples; the first after these steps (samples):", run.plan.eval_interval);
  for (std::int64_t k = 1; k <= kShownPoints; ++k) {
    const std::int64_t step = evaluation_step(k, run.plan.eval_interval, settings.global_batch);
    fmt::print(" {} ({})", step, step * settings.global_batch);
  }
  fmt::print("\n");
}

SampleLimits sample_limits(const TrainSettings& settings) {
  return {.vocab = settings.model.vocab, .max_positions = settings.model.max_positions, .type_vocab = settings.model.type_vocab};
}

}  // namespace flashbert
