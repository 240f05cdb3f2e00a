#include "train/run_inputs.h"

#include <functional>

#include "comm/rank_agreement.h"
#include "core/build_info.h"
#include "core/log.h"
#include "core/memory.h"
#include "report/evaluation_points.h"
#include "report/results_folder.h"
#include "train/checkpoint_load.h"

namespace flashbert {
namespace {

std::string version_of_build() {
  std::string text;
  for (const auto& [name, version] : build_info()) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, version);
  return text;
}

/// Every rank must run the same configuration with the same kernels; a difference would only show as weights that drift apart.
void check_same_everywhere(const std::string& config_text, const Context& context, const Ranks& ranks, RankAgreement& agreement) {
  check<ConfigError>(agreement.equal(std::hash<std::string>{}(config_text)),
                     "the ranks were started with different settings; give all the same options and environment");
  check<EnvironmentError>(agreement.equal(std::hash<std::string>{}(context.arithmetic())),
                          "the ranks' processors have different instruction sets (rank {} has {}); set FLASHBERT_MAX_ISA to the lowest",
                          ranks.rank(), context.arithmetic());
  check<EnvironmentError>(agreement.equal(std::hash<std::string>{}(version_of_build())),
                          "the ranks run different builds of flashbert or its libraries (rank {}: {})", ranks.rank(), version_of_build());
}

void check_results(const TrainSettings& s, const Ranks& ranks) {
  check<ConfigError>(!s.out.empty(), "out is not set; give a folder for the results");
  if (ranks.root()) check_results_folder(s.out, s.overwrite ? ExistingResults::kOverwrite : ExistingResults::kRefuse);
  const std::filesystem::path trace = s.trace_samples;
  std::error_code ignored;
  if (!trace.empty() && ranks.root()) {
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

void open_data(const TrainSettings& s, RunInputs& inputs) {
  if (s.init != "random") check_checkpoint(s.init, ParameterTable(s.model));
  inputs.train = open_data_set(s.train_data, s.model.max_positions);
  if (s.eval_data.empty()) return;
  inputs.eval = open_data_set(s.eval_data, s.model.max_positions);
  check<InputError>(s.eval_samples <= inputs.eval->samples, "eval-samples is {}, {} holds {}", s.eval_samples, s.eval_data,
                    inputs.eval->samples);
  inputs.eval_samples = s.eval_samples > 0 ? s.eval_samples : inputs.eval->samples;
}

/// All ranks take the least micro-batch that any of them would choose.
BatchPlan agreed_plan(const TrainSettings& settings, const RunInputs& inputs, const Backend& backend, const Ranks& ranks,
                      RankAgreement& agreement) {
  const Machine machine = {
      .ranks = ranks.size(), .local_ranks = ranks.local_size(), .compute = backend.compute, .free_bytes = available_memory_bytes()};
  DataSets sets = {&inputs.train};
  if (inputs.eval) sets.push_back(&*inputs.eval);
  BatchPlan plan;
  agreement.together([&] { plan = plan_batch(settings, machine, sets, *backend.ops); });
  const std::int64_t least = agreement.least(plan.split.micro_batch);
  if (least == plan.split.micro_batch) return plan;
  TrainSettings agreed = settings;
  agreed.micro_batch = least;
  return plan_batch(agreed, machine, sets, *backend.ops);
}

}  // namespace

RunInputs open_run_inputs(const TrainSettings& settings, const std::string& config_text, const Backend& backend, Ranks& ranks) {
  RankAgreement agreement(ranks);
  check_same_everywhere(config_text, *backend.context, ranks, agreement);
  RunInputs inputs;
  agreement.together([&] {
    if (!settings.dry_run) check_results(settings, ranks);
    open_data(settings, inputs);
  });
  inputs.batch = agreed_plan(settings, inputs, backend, ranks, agreement);
  if (inputs.eval) {
    inputs.eval_interval =
        settings.eval_every_samples > 0 ? settings.eval_every_samples : mlperf_evaluation_interval(settings.global_batch);
  }
  if (ranks.root()) {
    spdlog::info("{} training samples in {} shards, {} evaluation samples", inputs.train.samples, inputs.train.shards.size(),
                 inputs.eval_samples);
    spdlog::info("global batch {} = micro-batch {} x {} x {} ranks", settings.global_batch, inputs.batch.split.micro_batch,
                 inputs.batch.split.accumulation, ranks.size());
    if (!inputs.batch.note.empty()) spdlog::info("{}", inputs.batch.note);
  }
  return inputs;
}

SampleLimits sample_limits(const TrainSettings& settings) {
  return {.vocab = settings.model.vocab, .max_positions = settings.model.max_positions, .type_vocab = settings.model.type_vocab};
}

}  // namespace flashbert
