#include "report/mlperf_run.h"

#include <algorithm>
#include <string_view>

#include "core/clock.h"
#include "core/error.h"

namespace flashbert {
namespace {

/// The reader of convergence points takes any line that holds one of these for that record, and the last mark of a line for its start.
constexpr std::string_view kFragileTexts[] = {":::MLLOG",      "global_batch_size", "submission_benchmark",
                                              "train_samples", "eval_accuracy",     "eval_error"};

}  // namespace

void check_log_text(std::string_view name, const std::string& text) {
  check<ConfigError>(!text.empty(), "{} is empty; the log must name it", name);
  try {
    static_cast<void>(MlLog::Json(text).dump());
  } catch (const MlLog::Json::exception&) {
    throw ConfigError(fmt::format("{} is no UTF-8 text; choose another", name));
  }
  for (const std::string_view word : kFragileTexts) {
    check<ConfigError>(text.find(word) == std::string::npos,
                       "{} '{}' holds '{}', which the official log readers would take for another record; choose another text", name, text,
                       word);
  }
}

void MlperfRun::begin_initialisation() {
  initialisation_start_s_ = clock_s();
  log_.event("cache_clear", true);
  log_.start("init_start");
}

void MlperfRun::describe(const RunDescription& run) {
  check_log_text("submission-org", run.org);
  check_log_text("submission-platform", run.platform);
  global_batch_ = std::max<std::int64_t>(run.global_batch, 1);
  log_.event("submission_benchmark", "bert");
  log_.event("submission_org", run.org);
  log_.event("submission_division", run.division);
  log_.event("submission_status", run.status);
  log_.event("submission_platform", run.platform);
  log_.event("seed", run.seed);
  log_.event("global_batch_size", run.global_batch);
  log_.event("d_batch_size", run.device_batch);
  log_.event("gradient_accumulation_steps", run.accumulation);
  log_.event("max_sequence_length", run.max_sequence_length);
  log_.event("max_predictions_per_seq", run.max_predictions);
  log_.event("opt_name", "lamb");
  log_.event("opt_base_learning_rate", run.learning_rate);
  // Two names for one value: rulesets up to 2.0 ask for the first, from 2.1 on for the second.
  log_.event("opt_epsilon", run.epsilon);
  log_.event("opt_lamb_epsilon", run.epsilon);
  log_.event("opt_learning_rate_training_steps", run.lr_total_steps);
  log_.event("opt_learning_rate_warmup_steps", run.warmup_steps);
  log_.event("num_warmup_steps", run.warmup_steps);
  log_.event("start_warmup_step", run.start_warmup_step);
  log_.event("opt_lamb_beta_1", run.beta1);
  log_.event("opt_lamb_beta_2", run.beta2);
  log_.event("opt_lamb_weight_decay_rate", run.weight_decay);
  log_.event("opt_lamb_learning_rate_decay_poly_power", run.lr_power);
  log_.event("opt_gradient_clip_order", run.clip_order);
  log_.event("loss_normalisation", run.loss_normalisation);
  log_.event("eval_samples", run.eval_samples);
  for (const std::string& name : run.weight_names) log_.event("weights_initialization", nullptr, {{"tensor", name}});
}

void MlperfRun::start_clock() {
  log_.stop("init_stop");
  initialisation_s_ = clock_s() - initialisation_start_s_;
  log_.start("run_start");
  run_start_s_ = clock_s();
  running_ = true;
  log_.start("epoch_start", progress_metadata(0));
  MlLog::Json block = {{"first_epoch_num", 1}, {"epoch_count", 1}};
  block.update(progress_metadata(0));
  log_.start("block_start", block);
}

MlLog::Json MlperfRun::progress_metadata(std::int64_t samples) const {
  return {{"epoch_num", samples}, {"step_num", samples / global_batch_}, {"samples_count", samples}};
}

void MlperfRun::begin_evaluation(std::int64_t samples) {
  log_.start("eval_start", progress_metadata(samples));
  evaluation_open_ = true;
}

void MlperfRun::evaluation(std::int64_t samples, double accuracy) {
  if (!evaluation_open_) begin_evaluation(samples);
  log_.event("eval_accuracy", accuracy, progress_metadata(samples));
  evaluation_open_ = false;
  log_.stop("eval_stop", progress_metadata(samples));
}

void MlperfRun::finish(std::int64_t samples, Outcome outcome) {
  if (!running_) return;
  // First, so that a log on a full disk is not tried again while its error is on the way up.
  running_ = false;
  finished_ = true;
  run_stop_s_ = clock_s();
  if (evaluation_open_) log_.stop("eval_stop", progress_metadata(samples));
  MlLog::Json block = {{"first_epoch_num", 1}, {"epoch_count", 1}};
  block.update(progress_metadata(samples));
  log_.stop("block_stop", block);
  log_.stop("epoch_stop", progress_metadata(samples));
  log_.event("train_samples", samples);
  log_.stop("run_stop", {{"status", outcome == Outcome::kSuccess ? "success" : "aborted"}});
}

double MlperfRun::elapsed_s() const { return finished_ ? run_stop_s_ - run_start_s_ : running_ ? clock_s() - run_start_s_ : 0.0; }

}  // namespace flashbert
