#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/mllog.h"

namespace flashbert {

/// What the log says about a run before its clock starts.
struct RunDescription {
  std::string org, division, status, platform;
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0, accumulation = 0, device_batch = 0;
  std::int64_t max_sequence_length = 0, max_predictions = 0, eval_samples = 0;
  double learning_rate = 0.0, lr_power = 0.0, beta1 = 0.0, beta2 = 0.0, epsilon = 0.0, weight_decay = 0.0;
  std::int64_t lr_total_steps = 0, warmup_steps = 0, start_warmup_step = 0;
  std::string clip_order, loss_normalisation;
  std::vector<std::string> weight_names;  ///< TensorFlow names, the reference's
};

/// Throws ConfigError when a text of the log is empty or holds a word that the official readers, which search whole lines, would take for
/// another record.
void check_log_text(std::string_view name, const std::string& text);

/// The records of one run, in the one form that passes the official checker for rulesets 1.0.0 to 5.0.0, closed and open; every rule
/// it follows stands in docs/benchmark-rules.md. Samples trained are logged under all three names the rulesets read: epoch_num (BERT's
/// accuracy), step_num (3.1) and samples_count (4.0 on). finish() is idempotent and is called for every way a run can end.
/// All functions throw EnvironmentError when the file cannot take a record.
class MlperfRun {
 public:
  explicit MlperfRun(MlLog& log) : log_(log) {}
  /// cache_clear and init_start.
  void begin_initialisation();
  /// Division, benchmark, seed, sizes, hyperparameters, weights: each exactly once, before start_clock(). Throws as check_log_text().
  void describe(const RunDescription& run);
  /// init_stop and run_start, then the start of the one epoch and the one block that a run is.
  void start_clock();
  /// eval_start; samples: trained so far.
  void begin_evaluation(std::int64_t samples);
  /// eval_accuracy and eval_stop, after an eval_start where begin_evaluation() was not called.
  void evaluation(std::int64_t samples, double accuracy);
  enum class Outcome { kSuccess, kAborted };
  /// Closes an evaluation that was cut short, block and epoch; then train_samples and run_stop, exactly once for any number of calls.
  /// Before start_clock() nothing is written: the run did not take place.
  void finish(std::int64_t samples, Outcome outcome);
  /// Whether start_clock() was called: the log then tells of a run that took place.
  [[nodiscard]] bool clock_started() const { return running_ || finished_; }
  [[nodiscard]] double elapsed_s() const;
  [[nodiscard]] double initialisation_s() const { return initialisation_s_; }

 private:
  [[nodiscard]] MlLog::Json progress_metadata(std::int64_t samples) const;
  MlLog& log_;
  bool running_ = false, evaluation_open_ = false, finished_ = false;
  std::int64_t global_batch_ = 1;
  double initialisation_start_s_ = 0.0, initialisation_s_ = 0.0, run_start_s_ = 0.0, run_stop_s_ = 0.0;
};

}  // namespace flashbert
