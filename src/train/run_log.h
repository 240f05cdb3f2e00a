#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/ranks.h"
#include "core/clock.h"
#include "report/metrics_log.h"
#include "report/mlperf_run.h"
#include "report/progress.h"
#include "report/run_report.h"
#include "train/backend.h"
#include "train/engine.h"
#include "train/run_inputs.h"
#include "train/sample_trace.h"
#include "train/train_settings.h"

namespace flashbert {

/// Takes a text for people on standard output.
using ShowText = std::function<void(const std::string&)>;

enum class SeedSource { kGiven, kSystem };

struct RunLogOptions {
  SeedSource seed = SeedSource::kSystem;
  ShowText show;  ///< takes the summary of the run, on the root
};

/// What one step took on this rank.
struct StepTimes {
  double step_s = 0.0;  ///< the whole step, waiting included
  double wait_s = 0.0;  ///< for data
};

/// How a run ended.
struct RunVerdict {
  bool target_reached = false;
  bool failed = false;  ///< a loss or gradient that is not finite
  std::string reason;   ///< why the run ended, in words
  std::string digest;   ///< of the weights
};

/// Everything that a run writes and tells: mllog.txt, metrics.jsonl, report.json, accuracy.txt, config.toml, system.json, the trace of
/// samples, the progress line and the console. It is told what happens and decides nothing. All ranks tell theirs the same events in the
/// same order; the root's writes, the others' keep silent. Where a number comes from stands in docs/metrics.md.
/// Every event throws EnvironmentError where a file cannot take what it writes.
class RunLog {
 public:
  /// Initialisation begins: its clock starts, in memory. What is referred to must live as long.
  RunLog(const TrainSettings& settings, const Backend& backend, Ranks& ranks, RunLogOptions options);

  /// Makes or clears the results folder and opens the files. Results of an earlier run are replaced here, so whatever is wrong with the
  /// input must be known before.
  void open(const std::string& config);
  /// Inputs and engine are ready: parameters, memory plan, the description in mllog.txt; what the closed division does
  /// not want is warned of.
  void initialised(const RunInputs& inputs, Engine& engine);
  /// All ranks can start: the settings are logged, and from here on nothing is refused, so that an error stands alone.
  void accepted(const std::string& config);
  /// The clock of the run starts.
  void started();
  /// A step is about to be computed. Collective where samples are traced.
  void batch_taken(const StepBatch& batch);
  void step_done(std::int64_t step, const StepResult& result, const StepTimes& times);
  void evaluation_begun();
  /// `seconds` since evaluation_begun().
  void evaluated(const EvaluationResult& result, double seconds);
  void saved(double seconds);
  /// The clock of the run stops. The one place that ends mllog.txt; idempotent.
  void ended(MlperfRun::Outcome outcome);
  /// An error ends the run: mllog.txt ends aborted, or results of a run that never started are removed. Throws nothing of its own: the
  /// error must not be replaced by one of writing the log.
  void ended_by_error();
  /// After ended(): report.json, accuracy.txt and the summary on standard output.
  void concluded(const RunVerdict& verdict);

 private:
  [[nodiscard]] bool root() const { return ranks_.root(); }
  [[nodiscard]] ProgressState progress_state(const StepResult& result) const;
  void warn_of_closed_division() const;
  void fill_report(const RunVerdict& verdict);

  const TrainSettings& settings_;
  const Backend& backend_;
  Ranks& ranks_;
  RunLogOptions options_;
  const RunInputs* inputs_ = nullptr;  ///< from initialised() on
  MlLog mllog_;                        ///< in memory until open()
  MlperfRun run_{mllog_};
  std::optional<MetricsLog> metrics_;     ///< of the root, from open() on
  std::optional<ProgressLine> progress_;  ///< from started() on
  std::optional<SampleTrace> trace_;      ///< where samples are traced, from started() on
  Clock::time_point run_start_;
  RunReport report_;
};

}  // namespace flashbert
