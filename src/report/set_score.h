#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "report/log_judge.h"
#include "report/rcp.h"
#include "report/run_figures.h"

namespace flashbert {

/// A log, judged and measured; the log itself is not kept.
struct JudgedRun {
  std::filesystem::path file;
  LogVerdict verdict;
  RunFigures figures;
  ConvergenceReading convergence;
  Division division = Division::kEither;
  bool has_records = false;
};

struct JudgeOptions {
  Ruleset ruleset = 0;
  SamplesFrom samples_from = SamplesFrom::kEvaluation;
};

/// Reads a log, judges and measures it. Throws InputError where it cannot be read.
JudgedRun judge_run(const std::filesystem::path& file, const JudgeOptions& options);

/// Logs that are the runs of one submission.
struct RunSet {
  std::filesystem::path dir;
  std::vector<std::filesystem::path> files;
};

/// Convergence of a set against the reference; absent verdict = does not apply (open division).
struct SetConvergence {
  std::optional<RcpVerdict> verdict;
  std::optional<RcpReference> reference;
  std::optional<double> scaling_factor;  ///< of a set that passes
  std::string reason;                    ///< in words, with the next action where it does not pass
};

struct SetScore {
  std::filesystem::path dir;
  std::size_t runs = 0, not_converged = 0;
  std::optional<double> olympic_minutes, scaled_minutes, olympic_samples;
  SetConvergence rcp;
};

/// Mean without the smallest and the largest value; absent for fewer than three. Infinite values count as largest.
std::optional<double> olympic_mean(std::vector<double> values);

/// The score of the runs of a set. One run that did not converge counts as the slowest and is dropped; two leave no score.
SetScore score_set(const std::filesystem::path& dir, const std::vector<const JudgedRun*>& runs, Ruleset ruleset);

/// Logs and sets under a file or a folder, in the order of their names: a set is a folder that directly holds result_*.txt files, or whose
/// direct subfolders hold one mllog.txt each. Throws InputError where there is nothing.
struct FoundLogs {
  std::vector<std::filesystem::path> files;
  std::vector<RunSet> sets;
};
FoundLogs find_logs(const std::filesystem::path& path);

}  // namespace flashbert
