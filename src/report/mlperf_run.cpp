#include "report/mlperf_run.h"

#include <chrono>

namespace flashbert {
namespace {

double clock_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

void MlperfRun::begin_initialisation() {
  initialisation_start_s_ = clock_s();
  log_.event("cache_clear", true);
  log_.start("init_start");
}

void MlperfRun::describe(const RunDescription& run) {
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
  log_.start("epoch_start", {{"epoch_num", 0}, {"samples_count", 0}});
  start_block(0);
}

void MlperfRun::start_block(std::int64_t samples) {
  block_samples_ = samples;
  ++block_number_;
  log_.start("block_start", {{"first_epoch_num", block_number_}, {"epoch_count", 1}, {"step_num", samples}, {"samples_count", samples}});
  block_open_ = true;
}

void MlperfRun::stop_block() {
  if (!block_open_) return;
  log_.stop("block_stop", {{"first_epoch_num", block_number_}, {"step_num", block_samples_}, {"samples_count", block_samples_}});
  block_open_ = false;
}

void MlperfRun::evaluation(std::int64_t samples, double accuracy) {
  stop_block();
  log_.event("eval_accuracy", accuracy, {{"epoch_num", samples}, {"samples_count", samples}});
  start_block(samples);
}

void MlperfRun::finish(std::int64_t samples, Outcome outcome) {
  if (!running_ || finished_) return;
  finished_ = true;
  run_stop_s_ = clock_s();
  stop_block();
  log_.stop("epoch_stop", {{"epoch_num", 0}, {"samples_count", samples}});
  log_.event("train_samples", samples);
  log_.stop("run_stop", {{"status", outcome == Outcome::kSuccess ? "success" : "aborted"}});
  running_ = false;
}

double MlperfRun::elapsed_s() const { return finished_ ? run_stop_s_ - run_start_s_ : running_ ? clock_s() - run_start_s_ : 0.0; }

}  // namespace flashbert
