#include "train/trainer.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <optional>

#include "comm/rank_agreement.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/whole_file.h"
#include "report/evaluation_points.h"
#include "report/progress.h"
#include "report/results_folder.h"
#include "report/run_report.h"
#include "report/system_info.h"
#include "train/checkpoint_load.h"
#include "train/checkpoint_save.h"
#include "train/run_outputs.h"
#include "train/settings_check.h"
#include "train/shared_seed.h"
#include "train/stop_signal.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// One training run: owns the state between steps and all ways to end.
class Training {
 public:
  Training(TrainSettings settings, Communicator& communicator) : settings_(std::move(settings)), communicator_(communicator) {}

  ExitCode run(const ConfigText& config_text) {
    const TrainSettings asked = settings_;
    validate(settings_, communicator_.size());
    settings_.seed = shared_seed(settings_.seed, communicator_);
    backend_ = make_backend(settings_, communicator_);
    if (root()) spdlog::info("{}", backend_.note);
    if (root()) outputs_.emplace().run.begin_initialisation();
    inputs_ = open_run_inputs(settings_, config_text({}), backend_, communicator_);
    const std::string config = config_text(decided_values(asked, settings_.seed, backend_, inputs_.batch, communicator_.size()));
    const StopSignal signal;
    try {
      // Whatever is wrong with the input has been said by now: results of an earlier run are replaced only for one that can start.
      ranks_.together([&] {
        if (root()) open_outputs(config);
        initialise_model();
      });
      if (root()) spdlog::info("settings\n{}", config);  // from here on nothing is refused: an error stands alone
      loop(signal);
    } catch (...) {
      end_log_after_error();
      throw;
    }
    return conclude();
  }

 private:
  [[nodiscard]] bool root() const { return communicator_.root(); }

  void open_outputs(const std::string& config) {
    const fs::path out = settings_.out;
    prepare_results_folder(out, settings_.overwrite ? ExistingResults::kOverwrite : ExistingResults::kRefuse);
    write_whole_file(out / "config.toml", config);
    write_whole_file(out / "system.json", system_json(software(communicator_, *backend_.context)));
    outputs_->open(out);
  }

  void initialise_model() {
    engine_ = std::make_unique<Engine>(inputs_.batch.engine, *backend_.ops, communicator_);
    Parameters& parameters = engine_->model().parameters();
    if (settings_.init == "random") {
      parameters.initialise(*backend_.ops, settings_.seed);
    } else {
      load_checkpoint(settings_.init, parameters, *backend_.ops);
    }
    const RowCapacity& rows = inputs_.batch.engine.capacity;
    loader_ = std::make_unique<Loader>(
        inputs_.train, LoaderOptions{.seed = settings_.seed,
                                     .global_batch = settings_.global_batch,
                                     .micro_batch = inputs_.batch.split.micro_batch,
                                     .rank = communicator_.rank(),
                                     .ranks = communicator_.size(),
                                     .first_step = 0,
                                     .capacity = {.sequences = rows.sequences, .tokens = rows.tokens, .masked = rows.masked},
                                     .limits = sample_limits(settings_)});
    if (!root()) return;
    spdlog::info("{}", parameters.table().group_text());
    spdlog::info("memory plan\n{}", engine_->plan().text());
    outputs_->run.describe(describe_run(settings_, inputs_, parameters.table()));
    if (settings_.submission.division == "closed" && given_seed_) {
      spdlog::warn("seed {} was given: the closed division wants seeds from the clock or the system", settings_.seed);
    }
    if (settings_.submission.division == "closed" && settings_.eval_at_start) {
      spdlog::warn("eval-at-start adds an evaluation that the closed division's schedule does not have");
    }
  }

  void start_clock() {
    communicator_.barrier();
    if (root()) outputs_->run.start_clock();
    communicator_.barrier();  // no rank reads a sample before run_start is written
    run_start_ = Clock::now();
    loader_->start();
    if (root() && !settings_.trace_samples.empty()) {
      trace_.open(settings_.trace_samples);
      check<EnvironmentError>(trace_.good(), "cannot write trace-samples {}", settings_.trace_samples);
    }
    if (inputs_.eval) {
      evaluation_batches_ = std::async(std::launch::async, [this] {
        return load_evaluation(*inputs_.eval, settings_.eval_samples, inputs_.batch.split.micro_batch, communicator_.rank(),
                               communicator_.size(), sample_limits(settings_));
      });
    }
  }

  void loop(const StopSignal& signal) {
    start_clock();
    ProgressLine progress(root());
    const bool reached_at_start = inputs_.eval && settings_.eval_at_start && evaluate();
    std::int64_t next_evaluation = 1;
    for (std::int64_t step = 0; !reached_at_start; ++step) {
      if (limit_reached(step) || stop_agreed(signal)) break;
      train_step(step, progress);
      if (!failure_.empty()) break;
      const std::int64_t done = step + 1;
      const bool evaluation_due = inputs_.eval && done == evaluation_step(next_evaluation, inputs_.eval_interval, settings_.global_batch);
      if (evaluation_due) {
        ++next_evaluation;
        // Several points may fall on one step when the interval is below the global batch.
        while (evaluation_step(next_evaluation, inputs_.eval_interval, settings_.global_batch) <= done) ++next_evaluation;
        progress.clear();
        if (evaluate()) break;
      }
      if (settings_.save_every_steps > 0 && done % settings_.save_every_steps == 0) save();
    }
    progress.clear();
    finish(reached_ ? MlperfRun::Outcome::kSuccess : MlperfRun::Outcome::kAborted);
    if (settings_.save_at_end && failure_.empty() && saved_at_ != report_.steps) save_at_end();
  }

  /// The run is over and has its verdict: a save that fails must not take the report with it.
  void save_at_end() {
    try {
      save();
    } catch (const Error&) {
      end_error_ = std::current_exception();
    }
  }

  [[nodiscard]] bool limit_reached(std::int64_t step) {
    const OptimizerSettings& optimizer = settings_.optimizer;
    const bool no_limit = settings_.max_steps == 0 && settings_.max_samples == 0;
    if (settings_.max_steps > 0 && step >= settings_.max_steps) {
      reason_ = fmt::format("max-steps {} reached", settings_.max_steps);
    } else if (settings_.max_samples > 0 && step * settings_.global_batch >= settings_.max_samples) {
      reason_ = fmt::format("max-samples {} reached", settings_.max_samples);
    } else if (no_limit && step >= optimizer.lr_total_steps) {
      reason_ = fmt::format("lr-total-steps {} reached: the learning rate is 0 from here on", optimizer.lr_total_steps);
    } else {
      return false;
    }
    // What the limit leaves unevaluated would be training for nothing.
    if (inputs_.eval && report_.train_samples != evaluated_at_) evaluate_at_limit();
    return true;
  }

  /// This evaluation stands on no point of the rules' schedule: in the closed division it may be told, but not end the run with success.
  void evaluate_at_limit() {
    const std::string limit = reason_;
    if (!evaluate() || settings_.submission.division != "closed") return;
    reached_ = false;
    reason_ = limit + "; the target was only met by an evaluation off the schedule, which the closed division does not count";
  }

  /// All ranks stop at the same step, whichever of them was signalled.
  bool stop_agreed(const StopSignal& signal) {
    const std::int64_t number = ranks_.greatest(signal.received());
    if (number == 0) return false;
    signal_ = static_cast<int>(number);
    reason_ = fmt::format("ended by signal {}", number);
    return true;
  }

  void train_step(std::int64_t step, ProgressLine& progress) {
    const auto start = Clock::now();
    const StepBatch* next = nullptr;
    ranks_.together([&] { next = &loader_->next(); });
    const StepBatch& batch = *next;
    const double wait_s = loader_->wait_s();
    trace(batch);
    const StepResult result = engine_->train_step(batch);
    const double step_s = seconds_since(start);
    report_.steps = step + 1;
    report_.train_samples = (step + 1) * settings_.global_batch;
    report_.train_tokens += result.tokens;
    report_.padded_tokens += settings_.global_batch * inputs_.batch.engine.capacity.seq_len;
    report_.micro_batches_without_mask += result.batches_without_mask;
    report_.steps_s += step_s;
    report_.wait_s += wait_s;
    if (step == 0) {
      report_.first_step_s = seconds_since(run_start_);
    } else {
      report_.timed_steps_s += step_s;
      report_.timed_tokens += result.tokens;
      ++report_.timed_steps;
    }
    if (root()) {
      outputs_->metrics->step({.step = step,
                               .samples = report_.train_samples,
                               .loss = result.loss,
                               .mlm_loss = result.mlm_loss,
                               .nsp_loss = result.nsp_loss,
                               .lr = result.learning_rate,
                               .grad_norm = result.gradient_norm,
                               .tokens = result.tokens,
                               .masked = result.masked,
                               .step_s = step_s,
                               .wait_s = wait_s});
      if (progress.due()) progress.show(progress_state(result));
    }
    if (!result.bad_value.empty()) {
      failure_ = fmt::format("step {}: the {} is not finite; the weights of the step before are kept", step, result.bad_value);
      reason_ = failure_;
    }
  }

  [[nodiscard]] ProgressState progress_state(const StepResult& result) const {
    const double timed = std::max(report_.timed_steps_s, 1e-9);
    return {.step = report_.steps,
            .max_steps = settings_.max_steps > 0 ? settings_.max_steps : settings_.max_samples / settings_.global_batch,
            .samples = report_.train_samples,
            .loss = result.loss,
            .accuracy = report_.evaluated ? report_.accuracy : -1.0,
            .samples_per_s = static_cast<double>(report_.timed_steps * settings_.global_batch) / timed,
            .tokens_per_s = static_cast<double>(report_.timed_tokens) / timed};
  }

  /// One line a sample, in the order of the slots; the root writes those of all ranks.
  void trace(const StepBatch& batch) {
    if (settings_.trace_samples.empty()) return;
    const auto first = static_cast<std::int64_t>(batch.slots.size()) * communicator_.rank();
    std::string lines;
    for (std::size_t i = 0; i < batch.slots.size(); ++i) {
      const SampleId& id = batch.slots[i];
      lines += fmt::format("{} {} {} {} {}\n", batch.step, first + static_cast<std::int64_t>(i), communicator_.rank(),
                           inputs_.train.shards[static_cast<std::size_t>(id.shard)].path.filename().string(), id.row);
    }
    if (!lines.empty()) lines.pop_back();  // gather_lines ends every rank's text itself
    lines = communicator_.gather_lines(lines);
    if (!root()) return;
    trace_ << lines << std::flush;
    check<EnvironmentError>(trace_.good(), "cannot write to trace-samples {}: the disk may be full", settings_.trace_samples);
  }

  /// True when the target is reached.
  bool evaluate() {
    const auto start = Clock::now();
    if (root()) outputs_->run.begin_evaluation(report_.train_samples);
    ranks_.together([&] {
      if (evaluation_batches_.valid()) loaded_evaluation_ = evaluation_batches_.get();
    });
    check_equal_weights();
    const EvaluationResult result = engine_->evaluate(loaded_evaluation_);
    evaluated_at_ = report_.train_samples;
    report_.evaluated = true;
    report_.accuracy = result.accuracy;
    report_.eval_samples = result.samples;
    report_.curve.points.emplace_back(report_.train_samples, result.accuracy);
    report_.evaluation_s += seconds_since(start);
    reached_ = result.accuracy >= settings_.target_accuracy;
    if (root()) {
      outputs_->run.evaluation(report_.train_samples, result.accuracy);
      outputs_->metrics->evaluation({.accuracy = result.accuracy,
                                     .eval_samples = result.samples,
                                     .correct = result.correct,
                                     .masked = result.masked,
                                     .samples = report_.train_samples});
      spdlog::info("evaluation at {} samples: masked-LM accuracy {:.4f} ({} of {}), next-sentence accuracy {:.4f}", report_.train_samples,
                   result.accuracy, result.correct, result.masked, result.nsp_accuracy);
    }
    if (reached_)
      reason_ = fmt::format("masked-LM accuracy {:.4f} is at least the target {:.4f}", result.accuracy, settings_.target_accuracy);
    return reached_;
  }

  /// Replicas that drift apart train several models and log the root's.
  void check_equal_weights() {
    if (communicator_.size() == 1) return;
    check<EnvironmentError>(ranks_.equal(engine_->weight_checksum()),
                            "the ranks hold different weights after step {}; do all nodes have the same processors and libraries?",
                            report_.steps);
  }

  void save() {
    const auto start = Clock::now();
    ranks_.together([&] {
      if (!root()) return;
      save_checkpoint({.out = settings_.out,
                       .state = {.step = report_.steps, .samples = report_.train_samples, .seed = settings_.seed},
                       .model = settings_.model,
                       .keep = settings_.keep},
                      engine_->model().parameters(), *backend_.ops);
    });
    saved_at_ = report_.steps;
    report_.saving_s += seconds_since(start);
  }

  /// The one place that ends the log; safe to call again.
  void finish(MlperfRun::Outcome outcome) {
    if (!outputs_ || !root()) return;
    outputs_->run.finish(report_.train_samples, outcome);
  }

  /// The error that ends the run must not be replaced by one of writing the log.
  void end_log_after_error() {
    try {
      // Of a run that never started nothing is left that would be in the way of the corrected command.
      if (outputs_ && outputs_->metrics && !outputs_->run.clock_started()) remove_results(settings_.out);
      finish(MlperfRun::Outcome::kAborted);
    } catch (const Error& error) {
      spdlog::error("the log could not be ended: {}", error.what());
    }
  }

  ExitCode conclude() {
    report_.digest = engine_->weight_digest();
    if (root()) write_report();
    if (end_error_) std::rethrow_exception(end_error_);
    if (!failure_.empty()) {
      if (root()) spdlog::error("{}", failure_);
      return ExitCode::kBadVerdict;
    }
    if (signal_ != 0) return ExitCode::kSignal;
    return !inputs_.eval || reached_ ? ExitCode::kGood : ExitCode::kBadVerdict;
  }

  void write_report() {
    const fs::path out = settings_.out;
    outputs_->metrics->flush();
    report_.status = reached_ ? "success" : "aborted";
    if (inputs_.eval && !reached_ && failure_.empty() && signal_ == 0) {
      reason_ += fmt::format("; accuracy {:.4f} is below the target {:.4f}", report_.accuracy, settings_.target_accuracy);
    }
    report_.reason = reason_;
    report_.target_reached = reached_;
    report_.failed = !failure_.empty();
    report_.curve.target = settings_.target_accuracy;
    report_.run_s = outputs_->run.elapsed_s();
    report_.initialisation_s = outputs_->run.initialisation_s();
    report_.global_batch = settings_.global_batch;
    report_.ranks = communicator_.size();
    report_.threads = backend_.threads;
    report_.precision = std::string(name_of(backend_.compute));
    report_.device = backend_.context->name();
    report_.seed = settings_.seed;
    write_whole_file(out / "report.json", report_json(report_));
    const std::string text = report_text(report_);
    write_whole_file(out / "accuracy.txt", text);
    fmt::print("\n{}\nlog      {}\nmetrics  {}\nreport   {}\n", text, (out / "mllog.txt").string(), (out / "metrics.jsonl").string(),
               (out / "report.json").string());
    if (report_.micro_batches_without_mask > 0) {
      spdlog::info("{} micro-batches had no masked position; they count with their next-sentence loss only",
                   report_.micro_batches_without_mask);
    }
  }

  TrainSettings settings_;
  bool given_seed_ = settings_.seed != 0;
  Communicator& communicator_;
  Agreement ranks_{communicator_};
  Backend backend_;
  RunInputs inputs_;
  std::optional<Outputs> outputs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Loader> loader_;
  std::future<std::vector<PackedBatch>> evaluation_batches_;  ///< read beside the first steps, after the clock has started
  std::vector<PackedBatch> loaded_evaluation_;
  std::ofstream trace_;
  Clock::time_point run_start_;
  RunReport report_;
  std::int64_t evaluated_at_ = -1;
  std::int64_t saved_at_ = -1;
  bool reached_ = false;
  int signal_ = 0;
  std::string failure_, reason_;
  std::exception_ptr end_error_;  ///< of the save after the run
};

}  // namespace

ExitCode run_training(const TrainSettings& settings, const ConfigText& config_text, Communicator& communicator) {
  return Training(settings, communicator).run(config_text);
}

}  // namespace flashbert
