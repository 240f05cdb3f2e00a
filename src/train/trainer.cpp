#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <optional>

#include "core/log.h"
#include "report/evaluation_points.h"
#include "report/progress.h"
#include "report/results_folder.h"
#include "report/run_report.h"
#include "report/system_info.h"
#include "train/checkpoint.h"
#include "train/run_outputs.h"
#include "train/run_plan.h"
#include "train/setup.h"
#include "train/stop_signal.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

SampleLimits sample_limits(const TrainSettings& s) {
  return {.vocab = s.model.vocab, .max_positions = s.model.max_positions, .type_vocab = s.model.type_vocab};
}

/// One training run: owns the state between steps and all ways to end.
class Training {
 public:
  Training(TrainSettings settings, Communicator& communicator) : settings_(std::move(settings)), communicator_(communicator) {}

  ExitCode run(const std::string& config_text) {
    validate(settings_, communicator_.size());
    settings_.seed = shared_seed(settings_.seed, communicator_);
    setup_ = make_setup(settings_, communicator_);
    if (root()) spdlog::info("{}", setup_.note);
    if (root() && !settings_.dry_run) open_outputs(config_text);
    initialise_data();
    if (settings_.dry_run) return dry_run();
    check_same_settings(config_text);
    try {
      initialise_model();
      loop();
    } catch (...) {
      finish(MlperfRun::Outcome::kAborted);
      throw;
    }
    return conclude();
  }

 private:
  [[nodiscard]] bool root() const { return communicator_.root(); }

  void open_outputs(const std::string& config_text) {
    const fs::path out = settings_.out;
    check<ConfigError>(!settings_.out.empty(), "out is not set; give a folder for the results");
    prepare_results_folder(out, settings_.overwrite ? ExistingResults::kOverwrite : ExistingResults::kRefuse);
    write_text_atomically(out / "config.toml", config_text);
    write_text_atomically(out / "system.json", system_json(software(communicator_, *setup_.context)));
    outputs_.emplace(out);
    outputs_->run.begin_initialisation();
  }

  /// Headers of all shards; no sample is read.
  void initialise_data() {
    train_ = open_data_set(settings_.train_data, settings_.model.max_positions);
    if (!settings_.eval_data.empty()) eval_ = open_data_set(settings_.eval_data, settings_.model.max_positions);
    const DataSet* const eval = eval_ ? &*eval_ : nullptr;
    if (eval != nullptr) {
      check<InputError>(settings_.eval_samples <= eval->samples, "eval-samples is {}, {} holds {}", settings_.eval_samples,
                        settings_.eval_data, eval->samples);
      eval_samples_ = settings_.eval_samples > 0 ? settings_.eval_samples : eval->samples;
    }
    plan_ = make_run_plan(settings_, communicator_.size(), setup_.compute, train_, eval, *setup_.ops);
    if (root()) {
      spdlog::info("{} training samples in {} shards, {} evaluation samples", train_.samples, train_.shards.size(), eval_samples_);
      spdlog::info("global batch {} = micro-batch {} x {} x {} ranks", settings_.global_batch, plan_.split.micro_batch,
                   plan_.split.accumulation, communicator_.size());
      if (!plan_.micro_batch_note.empty()) spdlog::info("{}", plan_.micro_batch_note);
    }
  }

  ExitCode dry_run() {
    if (!root()) return ExitCode::kGood;
    const ParameterTable table(settings_.model);
    fmt::print("parameters        {} in {}\n", table.elements(), table.group_text());
    fmt::print("memory plan\n{}", EngineParts(plan_.engine, *setup_.ops).plan.text());
    fmt::print("max-samples       {}\n", settings_.max_samples);
    if (plan_.eval_interval > 0) {
      fmt::print("evaluation        every {} samples; the first after these steps (samples):", plan_.eval_interval);
      for (std::int64_t k = 1; k <= 6; ++k) {
        const std::int64_t step = evaluation_step(k, plan_.eval_interval, settings_.global_batch);
        fmt::print(" {} ({})", step, step * settings_.global_batch);
      }
      fmt::print("\n");
    }
    return ExitCode::kGood;
  }

  /// Every rank must run the same configuration; a difference would only show as wrong sums.
  void check_same_settings(const std::string& config_text) {
    const std::size_t hash = std::hash<std::string>{}(config_text);
    std::int64_t extremes[2] = {static_cast<std::int64_t>(hash >> 1), -static_cast<std::int64_t>(hash >> 1)};
    communicator_.all_reduce_max(extremes);
    check<ConfigError>(extremes[0] == -extremes[1],
                       "the ranks were started with different settings; give all the same options and environment");
  }

  void initialise_model() {
    engine_ = std::make_unique<Engine>(plan_.engine, *setup_.ops, communicator_);
    Parameters& parameters = engine_->model().parameters();
    if (settings_.init == "random") {
      parameters.initialise(*setup_.ops, settings_.seed);
    } else {
      load_checkpoint(settings_.init, parameters, *setup_.ops);
    }
    const RowCapacity& rows = plan_.engine.capacity;
    loader_ = std::make_unique<Loader>(
        train_, LoaderOptions{.seed = settings_.seed,
                              .global_batch = settings_.global_batch,
                              .micro_batch = plan_.split.micro_batch,
                              .rank = communicator_.rank(),
                              .ranks = communicator_.size(),
                              .first_step = 0,
                              .capacity = {.sequences = rows.sequences, .tokens = rows.tokens, .masked = rows.masked},
                              .limits = sample_limits(settings_)});
    if (!root()) return;
    spdlog::info("{}", parameters.table().group_text());
    spdlog::info("memory plan\n{}", engine_->plan().text());
    outputs_->run.describe(describe_run(settings_, plan_, parameters.table(), eval_samples_));
    if (settings_.submission.division == "closed" && given_seed_) {
      spdlog::warn("seed {} was given: the closed division wants seeds from the clock or the system", settings_.seed);
    }
  }

  void start_clock() {
    communicator_.barrier();
    if (root()) outputs_->run.start_clock();
    run_start_ = Clock::now();
    loader_->start();
    if (!settings_.trace_samples.empty()) {
      const std::string path =
          communicator_.size() == 1 ? settings_.trace_samples : fmt::format("{}.{}", settings_.trace_samples, communicator_.rank());
      trace_.open(path);
      check<EnvironmentError>(trace_.good(), "cannot write trace-samples {}", path);
    }
    if (eval_) {
      evaluation_batches_ = std::async(std::launch::async, [this] {
        return load_evaluation(*eval_, settings_.eval_samples, plan_.split.micro_batch, communicator_.rank(), communicator_.size(),
                               sample_limits(settings_));
      });
    }
  }

  void loop() {
    const StopSignal signal;
    start_clock();
    ProgressLine progress(root());
    const bool reached_at_start = eval_ && settings_.eval_at_start && evaluate();
    std::int64_t next_evaluation = 1;
    for (std::int64_t step = 0; !reached_at_start; ++step) {
      if (limit_reached(step)) break;
      train_step(step, progress);
      if (!failure_.empty()) break;
      const std::int64_t done = step + 1;
      const bool evaluation_due = eval_ && done == evaluation_step(next_evaluation, plan_.eval_interval, settings_.global_batch);
      if (evaluation_due) {
        ++next_evaluation;
        // Several points may fall on one step when the interval is below the global batch.
        while (evaluation_step(next_evaluation, plan_.eval_interval, settings_.global_batch) <= done) ++next_evaluation;
        progress.clear();
        if (evaluate()) break;
      }
      if (settings_.save_every_steps > 0 && done % settings_.save_every_steps == 0) save();
      if (stop_agreed(signal)) break;
    }
    progress.clear();
    finish(reached_ ? MlperfRun::Outcome::kSuccess : MlperfRun::Outcome::kAborted);
    if (settings_.save_at_end && failure_.empty()) save();
  }

  [[nodiscard]] bool limit_reached(std::int64_t step) {
    const bool steps = settings_.max_steps > 0 && step >= settings_.max_steps;
    const bool samples = settings_.max_samples > 0 && step * settings_.global_batch >= settings_.max_samples;
    if (steps) reason_ = fmt::format("max-steps {} reached", settings_.max_steps);
    if (samples) reason_ = fmt::format("max-samples {} reached", settings_.max_samples);
    if (!steps && !samples) return false;
    // What the limit leaves unevaluated would be training for nothing.
    if (eval_ && report_.train_samples != evaluated_at_) static_cast<void>(evaluate());
    return true;
  }

  /// All ranks stop at the same step, whichever of them was signalled.
  bool stop_agreed(const StopSignal& signal) {
    std::int64_t number = signal.received();
    communicator_.all_reduce_max(std::span<std::int64_t>(&number, 1));
    if (number == 0) return false;
    signal_ = static_cast<int>(number);
    reason_ = fmt::format("ended by signal {}", number);
    return true;
  }

  void train_step(std::int64_t step, ProgressLine& progress) {
    const auto start = Clock::now();
    const StepBatch& batch = loader_->next();
    const double wait_s = loader_->wait_s();
    trace(batch);
    const StepResult result = engine_->train_step(batch);
    const double step_s = seconds_since(start);
    report_.steps = step + 1;
    report_.train_samples = (step + 1) * settings_.global_batch;
    report_.train_tokens += result.tokens;
    report_.padded_tokens += settings_.global_batch * plan_.engine.capacity.seq_len;
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
      outputs_->metrics.step({.step = step,
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

  void trace(const StepBatch& batch) {
    if (!trace_.is_open()) return;
    const auto first = static_cast<std::int64_t>(batch.slots.size()) * communicator_.rank();
    for (std::size_t i = 0; i < batch.slots.size(); ++i) {
      const SampleId& id = batch.slots[i];
      trace_ << fmt::format("{} {} {} {} {}\n", batch.step, first + static_cast<std::int64_t>(i), communicator_.rank(),
                            train_.shards[static_cast<std::size_t>(id.shard)].path.filename().string(), id.row);
    }
  }

  /// True when the target is reached.
  bool evaluate() {
    const auto start = Clock::now();
    if (root()) outputs_->run.begin_evaluation(report_.train_samples);
    if (evaluation_batches_.valid()) loaded_evaluation_ = evaluation_batches_.get();
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
      outputs_->metrics.evaluation({.accuracy = result.accuracy,
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

  void save() {
    const auto start = Clock::now();
    if (root()) {
      save_checkpoint(settings_.out, {.step = report_.steps, .samples = report_.train_samples, .seed = settings_.seed}, settings_.model,
                      engine_->model().parameters(), *setup_.ops, settings_.keep);
    }
    communicator_.barrier();
    report_.saving_s += seconds_since(start);
  }

  /// The one place that ends the log; safe to call again.
  void finish(MlperfRun::Outcome outcome) {
    if (!outputs_ || !root()) return;
    outputs_->run.finish(report_.train_samples, outcome);
  }

  ExitCode conclude() {
    report_.digest = engine_->weight_digest();
    if (root()) write_report();
    if (!failure_.empty()) {
      if (root()) spdlog::error("{}", failure_);
      return ExitCode::kBadVerdict;
    }
    if (signal_ != 0) return ExitCode::kSignal;
    return !eval_ || reached_ ? ExitCode::kGood : ExitCode::kBadVerdict;
  }

  void write_report() {
    const fs::path out = settings_.out;
    outputs_->metrics.flush();
    report_.status = reached_ ? "success" : "aborted";
    if (eval_ && !reached_ && failure_.empty() && signal_ == 0) {
      reason_ += fmt::format("; accuracy {:.4f} is below the target {:.4f}", report_.accuracy, settings_.target_accuracy);
    }
    report_.reason = reason_;
    report_.target_reached = reached_;
    report_.curve.target = settings_.target_accuracy;
    report_.run_s = outputs_->run.elapsed_s();
    report_.initialisation_s = outputs_->run.initialisation_s();
    report_.global_batch = settings_.global_batch;
    report_.ranks = communicator_.size();
    report_.threads = setup_.context->threads();
    report_.precision = std::string(name_of(setup_.compute));
    report_.device = "cpu";
    report_.seed = settings_.seed;
    write_text_atomically(out / "report.json", report_json(report_));
    const std::string text = report_text(report_);
    write_text_atomically(out / "accuracy.txt", text);
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
  Setup setup_;
  DataSet train_;
  std::optional<DataSet> eval_;
  std::int64_t eval_samples_ = 0;
  RunPlan plan_;
  std::optional<Outputs> outputs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Loader> loader_;
  std::future<std::vector<PackedBatch>> evaluation_batches_;  ///< read beside the first steps, after the clock has started
  std::vector<PackedBatch> loaded_evaluation_;
  std::ofstream trace_;
  Clock::time_point run_start_;
  RunReport report_;
  std::int64_t evaluated_at_ = -1;
  bool reached_ = false;
  int signal_ = 0;
  std::string failure_, reason_;
};

}  // namespace

ExitCode run_training(const TrainSettings& settings, const std::string& config_text, Communicator& communicator) {
  return Training(settings, communicator).run(config_text);
}

EvaluationResult run_evaluation(const TrainSettings& settings, Communicator& communicator) {
  settings.model.validate();
  check<ConfigError>(!settings.eval_data.empty(), "eval-data is not set; give a shard or a folder of shards");
  check<ConfigError>(settings.init != "random", "init is not set; give a checkpoint to evaluate");
  const Setup setup = make_setup(settings, communicator);
  const DataSet data = open_data_set(settings.eval_data, settings.model.max_positions);
  constexpr std::int64_t kTokensAtOnce = 8192;
  const std::int64_t seq_len = data.seq_len > 0 ? data.seq_len : settings.model.max_positions;
  const std::int64_t micro_batch =
      settings.micro_batch > 0 ? settings.micro_batch : std::clamp<std::int64_t>(kTokensAtOnce / seq_len, 1, data.samples);
  Engine engine({.model = settings.model,
                 .optimizer = settings.optimizer,
                 .compute = setup.compute,
                 .capacity = row_capacity(settings, nullptr, &data, micro_batch),
                 .use = Parameters::Use::kInference,
                 .global_batch = micro_batch},
                *setup.ops, communicator);
  load_checkpoint(settings.init, engine.model().parameters(), *setup.ops);
  return engine.evaluate(
      load_evaluation(data, settings.eval_samples, micro_batch, communicator.rank(), communicator.size(), sample_limits(settings)));
}

}  // namespace flashbert
