#pragma once

#include <cstdint>
#include <string>

#include "report/text_plot.h"

namespace flashbert {

/// Everything report.json tells; each number's derivation stands in docs/metrics.md.
struct RunReport {
  std::string status;  ///< "success" or "aborted"
  std::string reason;  ///< why the run ended, in words
  bool target_reached = false;
  bool failed = false;  ///< a loss or gradient that is not finite
  bool evaluated = false;
  double accuracy = 0.0;  ///< of the last evaluation
  AccuracyCurve curve;
  std::int64_t steps = 0, train_samples = 0, eval_samples = 0;
  std::int64_t train_tokens = 0;
  std::int64_t padded_tokens = 0;  ///< samples x longest sequence: what a padded program would compute
  std::int64_t micro_batches_without_mask = 0;
  double run_s = 0.0;             ///< run_start to run_stop
  double initialisation_s = 0.0;  ///< init_start to init_stop
  double steps_s = 0.0;           ///< in steps, waiting for data included
  double wait_s = 0.0, evaluation_s = 0.0, saving_s = 0.0;
  double first_step_s = 0.0;   ///< run_start to the end of the first step
  double timed_steps_s = 0.0;  ///< steps after the first
  std::int64_t timed_steps = 0;
  std::int64_t timed_tokens = 0;
  std::int64_t global_batch = 0;
  int ranks = 1, threads = 1;
  std::string precision, device;
  std::uint64_t seed = 0;
  std::string digest;
};

/// report.json; `digest` is the last key. Speeds are over the steps after the first, without evaluation and saving, and null where there
/// was only one step; numbers that are not finite are null.
std::string report_json(const RunReport& report);

/// The summary for people: outcome, time, samples, throughput, where the time went, the accuracy curve.
std::string report_text(const RunReport& report);

}  // namespace flashbert
