#include "report/log_traps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/evaluation_points.h"
#include "report/log_judge.h"
#include "report/log_values.h"
#include "report/run_figures.h"

namespace flashbert {
namespace {

using Findings = std::vector<LogFinding>;

std::vector<const LogRecord*> records_of(const MlperfLog& log, std::string_view key) {
  std::vector<const LogRecord*> found;
  for (const LogRecord& record : log.records) {
    if (record.key == key) found.push_back(&record);
  }
  return found;
}

void several_runs(const MlperfLog& log, Findings& findings) {
  const auto starts = records_of(log, "run_start");
  if (starts.size() < 2) return;
  findings.push_back({"run_start", fmt::format("the file holds {} runs, and tools mix their records; write one file a run", starts.size()),
                      starts[1]->line});
}

void clock(const MlperfLog& log, const RunFigures& figures, Findings& findings) {
  if (!figures.minutes || *figures.minutes > 0.0) return;
  findings.push_back({"run_stop",
                      fmt::format("run_stop comes {:.3f} min after run_start by its time; the score would be no time", *figures.minutes),
                      records_of(log, "run_stop")[0]->line});
}

void order_of_evaluations(const RunFigures& figures, Findings& findings) {
  double highest = -HUGE_VAL;
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    if (evaluation.after_end) {
      findings.push_back({"eval_accuracy", "evaluations after run_stop count for the target and not for convergence", evaluation.line});
      return;
    }
    if (evaluation.samples && *evaluation.samples < highest) {
      findings.push_back({"eval_accuracy",
                          "evaluations are not in the order of their samples; the last one in the file is read as that of convergence",
                          evaluation.line});
      return;
    }
    highest = std::max(highest, evaluation.samples.value_or(highest));
  }
}

void end_of_run(const MlperfLog& log, const RunFigures& figures, Findings& findings) {
  if (!figures.target_reached.value_or(false)) return;
  const auto stops = records_of(log, "run_stop");
  if (!stops.empty() && figures.status != "success") {
    findings.push_back(
        {"run_stop",
         fmt::format("the target is reached and the status is '{}': the log passes, its convergence counts as never", figures.status),
         stops.back()->line});
  }
  for (std::size_t i = 0; i + 1 < figures.evaluations.size(); ++i) {
    const LoggedEvaluation& evaluation = figures.evaluations[i];
    if (evaluation.after_end || evaluation.accuracy.value_or(0.0) < kTargetAccuracy) continue;
    findings.push_back(
        {"eval_accuracy", "the run went on after the target was reached; time and samples count to its end", evaluation.line});
    return;
  }
}

void seeds(const MlperfLog& log, Findings& findings) {
  const auto records = records_of(log, "seed");
  if (records.empty()) {
    findings.push_back({"seed", "there is no seed; the package checker wants one whole number in each log of the closed division", 0});
  }
  for (const LogRecord* record : records) {
    const auto value = number_of(record->value);
    const bool whole = value && std::nearbyint(*value) == *value;
    if (whole && holds_name(record->metadata, "file") && holds_name(record->metadata, "lineno")) continue;
    findings.push_back({"seed", "the package checker wants a whole number with file and lineno in its metadata", record->line});
    return;
  }
}

void evaluation_samples(const MlperfLog& log, Findings& findings) {
  constexpr double kEvaluationSamples = 10'000;
  const auto records = records_of(log, "eval_samples");
  if (records.empty() || number_of(records[0]->value) == kEvaluationSamples) return;
  findings.push_back({"eval_samples",
                      fmt::format("eval_samples is {}; the benchmark evaluates on 10000, which no tool checks", shown(records[0]->value)),
                      records[0]->line});
}

/// A step that was skipped and whose samples still count puts published logs one batch late; two are tolerated.
void distance_of_evaluations(const RunFigures& figures, Findings& findings) {
  if (!figures.global_batch || *figures.global_batch < 1.0 || *figures.global_batch > 1e9) return;
  const auto interval = static_cast<double>(mlperf_evaluation_interval(static_cast<std::int64_t>(*figures.global_batch)));
  double before = 0.0;
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    if (!evaluation.samples || evaluation.after_end) continue;
    if (*evaluation.samples - before > interval + 2.0 * *figures.global_batch) {
      findings.push_back({"eval_accuracy",
                          fmt::format("{:.0f} samples lie between two evaluations; at batch {:.0f} the rules ask for one every {:.0f}",
                                      *evaluation.samples - before, *figures.global_batch, interval),
                          evaluation.line});
      return;
    }
    before = *evaluation.samples;
  }
}

}  // namespace

std::vector<LogFinding> find_traps(const MlperfLog& log) {
  Findings findings = log.invisible;
  const RunFigures figures = figures_of(log);
  several_runs(log, findings);
  clock(log, figures, findings);
  order_of_evaluations(figures, findings);
  end_of_run(log, figures, findings);
  const ConvergenceReading reading = checked_convergence(log, SamplesFrom::kEvaluation);
  if (!reading.error.empty()) findings.push_back({"convergence", reading.error, 0});
  if (division_of(log) == Division::kOpen) return findings;
  seeds(log, findings);
  evaluation_samples(log, findings);
  distance_of_evaluations(figures, findings);
  return findings;
}

}  // namespace flashbert
