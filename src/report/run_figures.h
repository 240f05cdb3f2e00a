#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/log_reader.h"

namespace flashbert {

struct LoggedEvaluation {
  std::optional<double> samples, accuracy;
  double time_ms = 0.0;
  std::int64_t line = 0;
  bool after_end = false;  ///< stands after the last run_stop
};

/// What a log says of its run; absent where it does not tell. docs/metrics.md has the derivations.
struct RunFigures {
  std::optional<double> minutes, initialisation_s, global_batch, train_samples, accuracy;
  std::optional<double> samples_per_s;     ///< between the first and the last evaluation, evaluations included
  std::optional<double> start_up_s;        ///< time to the first evaluation beyond what that rate needs for its samples
  std::optional<double> evaluation_share;  ///< of the time from run_start to run_stop
  std::optional<bool> target_reached;
  std::string status, benchmark;
  std::vector<LoggedEvaluation> evaluations;  ///< in the order of the file
};
RunFigures figures_of(const MlperfLog& log);

/// A run as the check of convergence sees it.
struct ConvergenceReading {
  bool converged = false;
  std::optional<double> samples, global_batch;
  std::string benchmark;
  std::string error;  ///< why the official reader crashes on this log; empty where it does not
};

/// Where samples to converge are read from: the last evaluation before a successful run_stop, or the record train_samples.
enum class SamplesFrom { kEvaluation, kTrainSamples };
/// Whether a record is taken for what its key says, or, as the official reader does, for any word that it mentions.
enum class RecordsBy { kKey, kWords };
ConvergenceReading read_convergence(const MlperfLog& log, SamplesFrom from, RecordsBy by);

/// The official reading with `error` also where it differs from what the keys say.
ConvergenceReading checked_convergence(const MlperfLog& log, SamplesFrom from);

}  // namespace flashbert
