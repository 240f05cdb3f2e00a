#include "train/trainer.h"

#include <future>
#include <memory>
#include <vector>

#include "comm/rank_agreement.h"
#include "core/clock.h"
#include "core/log.h"
#include "report/evaluation_points.h"
#include "train/checkpoint_load.h"
#include "train/checkpoint_save.h"
#include "train/run_inputs.h"
#include "train/settings_check.h"
#include "train/shared_seed.h"
#include "train/stop_signal.h"

namespace flashbert {
namespace {

/// The loop of one training run: decides when to evaluate, to save and to stop. What happens is told to the run's log.
class Training {
 public:
  Training(const TrainSettings& settings, const Backend& backend, const RunInputs& inputs, Peers peers, RunLog& log)
      : settings_(settings), backend_(backend), inputs_(inputs), peers_(peers), log_(log) {}

  void initialise(const std::string& config) {
    // Whatever is wrong with the input has been told by now: results of an earlier run are replaced only for one that can start.
    agreement_.together([&] {
      log_.open(config);
      make_engine();
      make_loader();
      log_.initialised(inputs_, *engine_);
    });
    log_.accepted(config);
  }

  void loop(const StopSignal& signal) {
    start_clock();
    const bool reached_at_start = inputs_.eval && settings_.eval_at_start && evaluate();
    std::int64_t next_evaluation = 1;
    for (std::int64_t step = 0; !reached_at_start; ++step) {
      if (limit_reached(step) || stop_agreed(signal)) break;
      train_step(step);
      if (!failure_.empty()) break;
      const std::int64_t done = step + 1;
      const bool evaluation_due = inputs_.eval && done == evaluation_step(next_evaluation, inputs_.eval_interval, settings_.global_batch);
      if (evaluation_due) {
        ++next_evaluation;
        // Several points may fall on one step when the interval is below the global batch.
        while (evaluation_step(next_evaluation, inputs_.eval_interval, settings_.global_batch) <= done) ++next_evaluation;
        if (evaluate()) break;
      }
      if (settings_.save_every_steps > 0 && done % settings_.save_every_steps == 0) save();
    }
    log_.ended(reached_ ? MlperfRun::Outcome::kSuccess : MlperfRun::Outcome::kAborted);
    if (settings_.save_at_end && failure_.empty() && saved_at_ != steps_) save_at_end();
  }

  ExitCode conclude() {
    RunVerdict verdict = {.target_reached = reached_, .failed = !failure_.empty(), .reason = reason_, .digest = engine_->weight_digest()};
    if (inputs_.eval && !reached_ && failure_.empty() && signal_ == 0) {
      verdict.reason += fmt::format("; accuracy {:.4f} is below the target {:.4f}", accuracy_, settings_.target_accuracy);
    }
    log_.concluded(verdict);
    if (end_error_) std::rethrow_exception(end_error_);
    if (!failure_.empty()) {
      if (ranks_.root()) spdlog::error("{}", failure_);
      return ExitCode::kBadVerdict;
    }
    if (signal_ != 0) return ExitCode::kSignal;
    return !inputs_.eval || reached_ ? ExitCode::kGood : ExitCode::kBadVerdict;
  }

 private:
  [[nodiscard]] std::int64_t samples() const { return steps_ * settings_.global_batch; }

  void make_engine() {
    engine_ = std::make_unique<Engine>(inputs_.batch.engine, *backend_.ops, peers_);
    Parameters& parameters = engine_->model().parameters();
    if (settings_.init == "random") {
      parameters.initialise(*backend_.ops, settings_.seed);
    } else {
      load_checkpoint(settings_.init, parameters, *backend_.ops);
    }
  }

  void make_loader() {
    const RowCapacity& rows = inputs_.batch.engine.capacity;
    loader_ = std::make_unique<Loader>(
        inputs_.train, LoaderOptions{.seed = settings_.seed,
                                     .global_batch = settings_.global_batch,
                                     .micro_batch = inputs_.batch.split.micro_batch,
                                     .rank = ranks_.rank(),
                                     .ranks = ranks_.size(),
                                     .first_step = 0,
                                     .capacity = {.sequences = rows.sequences, .tokens = rows.tokens, .masked = rows.masked},
                                     .limits = sample_limits(settings_)});
  }

  void start_clock() {
    ranks_.barrier();
    log_.started();
    ranks_.barrier();  // no rank reads a sample before run_start is written
    loader_->start();
    if (inputs_.eval) {
      evaluation_batches_ = std::async(std::launch::async, [this] {
        return load_evaluation(*inputs_.eval, settings_.eval_samples, inputs_.batch.split.micro_batch, ranks_.rank(), ranks_.size(),
                               sample_limits(settings_));
      });
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
    if (inputs_.eval && samples() != evaluated_at_) evaluate_at_limit();
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
    const std::int64_t number = agreement_.greatest(signal.received());
    if (number == 0) return false;
    signal_ = static_cast<int>(number);
    reason_ = fmt::format("ended by signal {}", number);
    return true;
  }

  void train_step(std::int64_t step) {
    const auto start = Clock::now();
    const StepBatch* batch = nullptr;
    agreement_.together([&] { batch = &loader_->next(); });
    const double wait_s = loader_->wait_s();
    log_.batch_taken(*batch);
    const StepResult result = engine_->train_step(*batch);
    const double step_s = seconds_since(start);
    steps_ = step + 1;
    log_.step_done(step, result, {.step_s = step_s, .wait_s = wait_s});
    if (!result.bad_value.empty()) {
      failure_ = fmt::format("step {}: the {} is not finite; the weights of the step before are kept", step, result.bad_value);
      reason_ = failure_;
    }
  }

  /// True when the target is reached.
  bool evaluate() {
    const auto start = Clock::now();
    log_.evaluation_begun();
    agreement_.together([&] {
      if (evaluation_batches_.valid()) loaded_evaluation_ = evaluation_batches_.get();
    });
    check_equal_weights();
    const EvaluationResult result = engine_->evaluate(loaded_evaluation_);
    evaluated_at_ = samples();
    accuracy_ = result.accuracy;
    reached_ = result.accuracy >= settings_.target_accuracy;
    log_.evaluated(result, seconds_since(start));
    if (reached_)
      reason_ = fmt::format("masked-LM accuracy {:.4f} is at least the target {:.4f}", result.accuracy, settings_.target_accuracy);
    return reached_;
  }

  /// Replicas that drift apart train several models and log the root's.
  void check_equal_weights() {
    if (ranks_.size() == 1) return;
    check<EnvironmentError>(agreement_.equal(engine_->weight_checksum()),
                            "the ranks hold different weights after step {}; do all nodes have the same processors and libraries?", steps_);
  }

  void save() {
    const auto start = Clock::now();
    agreement_.together([&] {
      if (!ranks_.root()) return;
      save_checkpoint({.out = settings_.out,
                       .state = {.step = steps_, .samples = samples(), .seed = settings_.seed},
                       .model = settings_.model,
                       .keep = settings_.keep},
                      engine_->model().parameters(), *backend_.ops);
    });
    saved_at_ = steps_;
    log_.saved(seconds_since(start));
  }

  /// The run is over and has its verdict: a save that fails must not take the report with it.
  void save_at_end() {
    try {
      save();
    } catch (const Error&) {
      end_error_ = std::current_exception();
    }
  }

  const TrainSettings& settings_;
  const Backend& backend_;
  const RunInputs& inputs_;
  Peers peers_;
  Ranks& ranks_ = peers_.ranks;
  RunLog& log_;
  RankAgreement agreement_{ranks_};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Loader> loader_;
  std::future<std::vector<PackedBatch>> evaluation_batches_;  ///< read beside the first steps, after the clock has started
  std::vector<PackedBatch> loaded_evaluation_;
  std::int64_t steps_ = 0;          ///< done
  std::int64_t evaluated_at_ = -1;  ///< samples
  std::int64_t saved_at_ = -1;      ///< steps
  double accuracy_ = 0.0;           ///< of the last evaluation
  bool reached_ = false;
  int signal_ = 0;
  std::string failure_, reason_;
  std::exception_ptr end_error_;  ///< of the save after the run
};

}  // namespace

ExitCode run_training(const TrainSettings& settings, const ConfigText& config_text, Peers peers, const ShowText& show) {
  validate(settings, peers.ranks.size());
  TrainSettings seeded = settings;
  seeded.seed = shared_seed(settings.seed, peers.ranks);
  const Backend backend = make_backend(seeded, peers.ranks);
  if (peers.ranks.root()) spdlog::info("{}", backend.note);
  RunLog log(seeded, backend, peers.ranks, {.seed = settings.seed == 0 ? SeedSource::kSystem : SeedSource::kGiven, .show = show});
  const RunInputs inputs = open_run_inputs(seeded, config_text({}), backend, peers.ranks);
  const std::string config = config_text(decided_values(settings, seeded.seed, backend, inputs.batch, peers.ranks.size()));
  Training training(seeded, backend, inputs, peers, log);
  const StopSignal signal;
  try {
    training.initialise(config);
    training.loop(signal);
  } catch (...) {
    log.ended_by_error();
    throw;
  }
  return training.conclude();
}

}  // namespace flashbert
