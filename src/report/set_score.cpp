#include "report/set_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace flashbert {
namespace {

constexpr std::size_t kSetRuns = 10;
constexpr std::size_t kMostNotConverged = 1;

/// A run that did not converge counts as the slowest: its value is infinite.
std::optional<double> mean_of(const std::vector<const JudgedRun*>& runs,
                              const std::function<std::optional<double>(const JudgedRun&)>& value) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const JudgedRun* run : runs) values.push_back(run->convergence.converged ? value(*run).value_or(HUGE_VAL) : HUGE_VAL);
  const auto mean = olympic_mean(std::move(values));
  return mean && std::isfinite(*mean) ? mean : std::nullopt;
}

SetConvergence failed(std::string reason) {
  return {.verdict = RcpVerdict::kFail, .reference = {}, .scaling_factor = {}, .reason = std::move(reason)};
}

std::string reason_of(RcpVerdict verdict, const RcpReference& reference, double batch, double samples) {
  if (reference.match == RcpMatch::kAbove) {
    return fmt::format("no reference point at or above batch {:.0f}; run the reference 20 times at this batch and submit the point", batch);
  }
  std::string found = fmt::format("mean {:.0f} samples, the reference's at batch {:.0f}{} is {:.0f} and at least {:.0f} pass", samples,
                                  reference.global_batch, reference.match == RcpMatch::kInterpolated ? " (interpolated)" : "",
                                  reference.mean, reference.min_mean);
  if (verdict == RcpVerdict::kPass) return found;
  if (verdict == RcpVerdict::kMissing) return found + "; below the smallest point a faster set needs one of its own: submit it";
  return found + "; converging faster than the reference is no merit here: check data, seeds and evaluation, or use a larger batch";
}

/// Why the official reader stops at this set before any comparison; empty where it does not.
std::string obstacle(const std::vector<const JudgedRun*>& runs) {
  for (const JudgedRun* run : runs) {
    if (!run->convergence.error.empty()) return fmt::format("{}: {}", run->file.string(), run->convergence.error);
  }
  const ConvergenceReading& first = runs.front()->convergence;
  for (const JudgedRun* run : runs) {
    const ConvergenceReading& reading = run->convergence;
    if (!reading.global_batch) return fmt::format("{} has no global_batch_size; write it", run->file.string());
    if (reading.global_batch != first.global_batch) {
      return fmt::format("batches differ: {:.0f} in {}, {:.0f} in {}; a set has one", *first.global_batch, runs.front()->file.string(),
                         *reading.global_batch, run->file.string());
    }
    if (reading.benchmark != first.benchmark) {
      return fmt::format("benchmarks differ: '{}' and '{}' in {}", first.benchmark, reading.benchmark, run->file.string());
    }
  }
  if (first.benchmark != "bert") return fmt::format("the benchmark is '{}', only bert is judged here", first.benchmark);
  return {};
}

SetConvergence compare(const std::vector<const JudgedRun*>& runs, const SetScore& score, Ruleset ruleset) {
  const bool open = std::all_of(runs.begin(), runs.end(), [](const JudgedRun* run) { return run->division == Division::kOpen; });
  if (open) return {.verdict = {}, .reference = {}, .scaling_factor = {}, .reason = "the open division is not compared with the reference"};
  std::string stopped = obstacle(runs);
  if (!stopped.empty()) return failed(std::move(stopped));
  if (score.not_converged > kMostNotConverged) {
    return failed(
        fmt::format("{} of {} runs did not converge, {} may; run the set again", score.not_converged, score.runs, kMostNotConverged));
  }
  const double batch = *runs.front()->convergence.global_batch;
  RcpReference reference = rcp_reference(ruleset, batch, RcpMethod::kToday);
  if (reference.match != RcpMatch::kAbove && !score.olympic_samples) {
    SetConvergence few =
        failed(fmt::format("{} runs are too few for a mean without the fastest and the slowest; {} are asked for", score.runs, kSetRuns));
    few.reference = reference;
    return few;
  }
  const double samples = score.olympic_samples.value_or(0.0);
  SetConvergence result{.verdict = rcp_verdict(reference, samples), .reference = reference, .scaling_factor = {}, .reason = {}};
  result.reason = reason_of(*result.verdict, reference, batch, samples);
  if (reference.match == RcpMatch::kAbove) result.reference.reset();
  if (result.verdict == RcpVerdict::kPass) result.scaling_factor = rcp_scaling_factor(reference, samples);
  if (score.runs != kSetRuns) result.reason += fmt::format("; the set has {} runs, {} are asked for", score.runs, kSetRuns);
  return result;
}

}  // namespace

std::optional<double> olympic_mean(std::vector<double> values) {
  if (values.size() < 3) return std::nullopt;
  std::sort(values.begin(), values.end());
  return std::accumulate(values.begin() + 1, values.end() - 1, 0.0) / static_cast<double>(values.size() - 2);
}

JudgedRun judge_run(const std::filesystem::path& file, const JudgeOptions& options) {
  const MlperfLog log = read_mlperf_log(file, is_judged_key);
  return {.file = file,
          .verdict = judge_log(log, options.ruleset),
          .figures = figures_of(log),
          .convergence = checked_convergence(log, options.samples_from),
          .division = division_of(log),
          .has_records = log.record_count > 0};
}

SetScore score_set(const std::filesystem::path& dir, const std::vector<const JudgedRun*>& runs, Ruleset ruleset) {
  SetScore score;
  score.dir = dir;
  score.runs = runs.size();
  score.not_converged =
      static_cast<std::size_t>(std::count_if(runs.begin(), runs.end(), [](const JudgedRun* run) { return !run->convergence.converged; }));
  score.olympic_minutes = mean_of(runs, [](const JudgedRun& run) { return run.figures.minutes; });
  score.olympic_samples = mean_of(runs, [](const JudgedRun& run) { return run.convergence.samples; });
  score.rcp = compare(runs, score, ruleset);
  if (score.olympic_minutes && score.rcp.scaling_factor) score.scaled_minutes = *score.olympic_minutes * *score.rcp.scaling_factor;
  if (score.olympic_minutes && !score.rcp.verdict) score.scaled_minutes = score.olympic_minutes;
  return score;
}

}  // namespace flashbert
