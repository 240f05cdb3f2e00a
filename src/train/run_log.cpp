#include "train/run_log.h"

#include <algorithm>

#include "core/log.h"
#include "core/whole_file.h"
#include "report/results_folder.h"
#include "report/system_info.h"
#include "train/run_description.h"

namespace flashbert {
namespace fs = std::filesystem;

RunLog::RunLog(const TrainSettings& settings, const Backend& backend, Ranks& ranks, RunLogOptions options)
    : settings_(settings), backend_(backend), ranks_(ranks), options_(std::move(options)) {
  if (root()) run_.begin_initialisation();
}

void RunLog::open(const std::string& config) {
  if (!root()) return;
  const fs::path out = settings_.out;
  prepare_results_folder(out, settings_.overwrite ? ExistingResults::kOverwrite : ExistingResults::kRefuse);
  write_whole_file(out / "config.toml", config);
  write_whole_file(out / "system.json", system_json(software(ranks_, *backend_.context)));
  mllog_.open(out / "mllog.txt");
  metrics_.emplace(out / "metrics.jsonl");
}

void RunLog::initialised(const RunInputs& inputs, Engine& engine) {
  inputs_ = &inputs;
  if (!root()) return;
  const ParameterTable& table = engine.model().parameters().table();
  spdlog::info("{}", table.group_text());
  spdlog::info("memory plan\n{}", engine.plan().text());
  run_.describe(describe_run(settings_, inputs, table));
  if (settings_.submission.division == "closed") warn_of_closed_division();
}

void RunLog::warn_of_closed_division() const {
  if (options_.seed == SeedSource::kGiven) {
    spdlog::warn("seed {} was given: the closed division wants seeds from the clock or the system", settings_.seed);
  }
  if (settings_.eval_at_start) spdlog::warn("eval-at-start adds an evaluation that the closed division's schedule does not have");
}

void RunLog::accepted(const std::string& config) {
  if (root()) spdlog::info("settings\n{}", config);
}

void RunLog::started() {
  if (root()) run_.start_clock();
  run_start_ = Clock::now();
  progress_.emplace(root());
  if (!settings_.trace_samples.empty()) trace_.emplace(settings_.trace_samples, inputs_->train, ranks_);
}

void RunLog::batch_taken(const StepBatch& batch) {
  if (trace_) trace_->write(batch);
}

void RunLog::step_done(std::int64_t step, const StepResult& result, const StepTimes& times) {
  report_.steps = step + 1;
  report_.train_samples = (step + 1) * settings_.global_batch;
  report_.train_tokens += result.tokens;
  report_.padded_tokens += settings_.global_batch * inputs_->batch.engine.capacity.seq_len;
  report_.micro_batches_without_mask += result.batches_without_mask;
  report_.steps_s += times.step_s;
  report_.wait_s += times.wait_s;
  if (step == 0) {
    report_.first_step_s = seconds_since(run_start_);
  } else {
    report_.timed_steps_s += times.step_s;
    report_.timed_tokens += result.tokens;
    ++report_.timed_steps;
  }
  if (!root()) return;
  metrics_->step({.step = step,
                  .samples = report_.train_samples,
                  .loss = result.loss,
                  .mlm_loss = result.mlm_loss,
                  .nsp_loss = result.nsp_loss,
                  .lr = result.learning_rate,
                  .grad_norm = result.gradient_norm,
                  .tokens = result.tokens,
                  .masked = result.masked,
                  .step_s = times.step_s,
                  .wait_s = times.wait_s});
  if (progress_->due()) progress_->show(progress_state(result));
}

ProgressState RunLog::progress_state(const StepResult& result) const {
  const double timed = std::max(report_.timed_steps_s, 1e-9);
  return {.step = report_.steps,
          .max_steps = settings_.max_steps > 0 ? settings_.max_steps : settings_.max_samples / settings_.global_batch,
          .samples = report_.train_samples,
          .loss = result.loss,
          .accuracy = report_.evaluated ? report_.accuracy : -1.0,
          .samples_per_s = static_cast<double>(report_.timed_steps * settings_.global_batch) / timed,
          .tokens_per_s = static_cast<double>(report_.timed_tokens) / timed};
}

void RunLog::evaluation_begun() {
  if (!root()) return;
  progress_->clear();
  run_.begin_evaluation(report_.train_samples);
}

void RunLog::evaluated(const EvaluationResult& result, double seconds) {
  report_.evaluated = true;
  report_.accuracy = result.accuracy;
  report_.eval_samples = result.samples;
  report_.curve.points.emplace_back(report_.train_samples, result.accuracy);
  report_.evaluation_s += seconds;
  if (!root()) return;
  run_.evaluation(report_.train_samples, result.accuracy);
  metrics_->evaluation({.accuracy = result.accuracy,
                        .eval_samples = result.samples,
                        .correct = result.correct,
                        .masked = result.masked,
                        .samples = report_.train_samples});
  spdlog::info("evaluation at {} samples: masked-LM accuracy {:.4f} ({} of {}), next-sentence accuracy {:.4f}", report_.train_samples,
               result.accuracy, result.correct, result.masked, result.nsp_accuracy);
}

void RunLog::saved(double seconds) { report_.saving_s += seconds; }

void RunLog::ended(MlperfRun::Outcome outcome) {
  if (progress_) progress_->clear();
  if (root()) run_.finish(report_.train_samples, outcome);
}

void RunLog::ended_by_error() {
  try {
    // Of a run that never started nothing is left that would be in the way of the corrected command.
    if (metrics_ && !run_.clock_started()) remove_results(settings_.out);
    ended(MlperfRun::Outcome::kAborted);
  } catch (const Error& error) {
    spdlog::error("the log could not be ended: {}", error.what());
  }
}

void RunLog::fill_report(const RunVerdict& verdict) {
  report_.status = verdict.target_reached ? "success" : "aborted";
  report_.reason = verdict.reason;
  report_.target_reached = verdict.target_reached;
  report_.failed = verdict.failed;
  report_.curve.target = settings_.target_accuracy;
  report_.run_s = run_.elapsed_s();
  report_.initialisation_s = run_.initialisation_s();
  report_.global_batch = settings_.global_batch;
  report_.ranks = ranks_.size();
  report_.threads = backend_.threads;
  report_.precision = std::string(name_of(backend_.compute));
  report_.device = backend_.context->name();
  report_.seed = settings_.seed;
  report_.digest = verdict.digest;
}

void RunLog::concluded(const RunVerdict& verdict) {
  if (!root()) return;
  const fs::path out = settings_.out;
  metrics_->flush();
  fill_report(verdict);
  write_whole_file(out / "report.json", report_json(report_));
  const std::string text = report_text(report_);
  write_whole_file(out / "accuracy.txt", text);
  options_.show(fmt::format("\n{}\nlog      {}\nmetrics  {}\nreport   {}\n", text, (out / "mllog.txt").string(),
                            (out / "metrics.jsonl").string(), (out / "report.json").string()));
  if (report_.micro_batches_without_mask > 0) {
    spdlog::info("{} micro-batches had no masked position; they count with their next-sentence loss only",
                 report_.micro_batches_without_mask);
  }
}

}  // namespace flashbert
