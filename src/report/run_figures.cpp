#include "report/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/log_values.h"
#include "report/mlperf_rules.h"

namespace flashbert {
namespace {

constexpr double kSecondMs = 1e3, kMinuteMs = 60e3;

/// run_start and run_stop as the official summary takes them: the last start before the first moment at which both are known.
struct RunTimes {
  std::optional<double> start, stop;
};
RunTimes run_times(const MlperfLog& log) {
  RunTimes times;
  for (const LogRecord& record : log.records) {
    if (record.key == "run_start") times.start = record.time_ms;
    if (record.key == "run_stop") times.stop = record.time_ms;
    if (times.start && times.stop) break;
  }
  return times;
}

std::optional<double> initialisation_s(const MlperfLog& log) {
  double start_ms = HUGE_VAL;
  for (const LogRecord& record : log.records) {
    if (record.key == "init_start") start_ms = std::min(start_ms, record.time_ms);
    if (record.key == "init_stop" && std::isfinite(start_ms)) return (record.time_ms - start_ms) / kSecondMs;
  }
  return std::nullopt;
}

/// Seconds in evaluations that have both a start and a stop inside the run.
std::optional<double> evaluation_s(const MlperfLog& log) {
  double started_ms = 0.0, total_s = 0.0;
  bool open = false, closed_one = false;
  for (const LogRecord& record : log.records) {
    if (record.key == "eval_start") {
      started_ms = record.time_ms;
      open = true;
    } else if (record.key == "eval_stop" && open) {
      total_s += (record.time_ms - started_ms) / kSecondMs;
      open = false;
      closed_one = true;
    }
  }
  if (!closed_one) return std::nullopt;
  return total_s;
}

void collect_evaluations(const MlperfLog& log, RunFigures& figures) {
  const auto last_stop =
      std::find_if(log.records.rbegin(), log.records.rend(), [](const LogRecord& record) { return record.key == "run_stop"; });
  const std::int64_t end = last_stop == log.records.rend() ? INT64_MAX : last_stop->line;
  for (const LogRecord& record : log.records) {
    if (record.key != "eval_accuracy") continue;
    auto accuracy = number_of(record.value);
    if (accuracy && !std::isfinite(*accuracy)) accuracy.reset();
    figures.evaluations.push_back({.samples = number_at(record.metadata, "epoch_num"),
                                   .accuracy = accuracy,
                                   .time_ms = record.time_ms,
                                   .line = record.line,
                                   .after_end = record.line > end});
    if (record.line < end) figures.accuracy = accuracy;
    if (!accuracy) continue;
    const bool reached = *accuracy >= kTargetAccuracy && *accuracy < 1.0;
    figures.target_reached = figures.target_reached.value_or(false) || reached;
  }
}

void derive_rates(RunFigures& figures, const RunTimes& times) {
  const LoggedEvaluation *first = nullptr, *last = nullptr;
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    if (!evaluation.samples || evaluation.after_end || *evaluation.samples <= 0.0) continue;
    if (first == nullptr) first = &evaluation;
    last = &evaluation;
  }
  if (first == nullptr || last->time_ms <= first->time_ms || *last->samples <= *first->samples) return;
  figures.samples_per_s = (*last->samples - *first->samples) * kSecondMs / (last->time_ms - first->time_ms);
  if (times.start) figures.start_up_s = (first->time_ms - *times.start) / kSecondMs - *first->samples / *figures.samples_per_s;
}

std::optional<double> epoch_number(const LogRecord& record) { return number_at(record.metadata, "epoch_num"); }

/// One reading of the log, record by record.
class ConvergenceReader {
 public:
  ConvergenceReader(SamplesFrom from, RecordsBy by) : from_(from), by_(by) {}

  void take(const LogRecord& record) {
    const auto is = [&](std::string_view key, bool mentioned) { return by_ == RecordsBy::kKey ? record.key == key : mentioned; };
    if (is("global_batch_size", record.mentions.global_batch_size)) take_batch(record);
    if (is("submission_benchmark", record.mentions.benchmark)) reading_.benchmark = text_of(record.value);
    const bool by_evaluation = from_ == SamplesFrom::kEvaluation;
    if (by_evaluation && is("eval_accuracy", record.mentions.evaluation)) take_samples(record, epoch_number(record), "epoch_num");
    if (!by_evaluation && is("train_samples", record.mentions.train_samples)) take_samples(record, number_of(record.value), "value");
    if (record.key == "run_stop" && (by_ == RecordsBy::kKey || record.mentions.run_stop)) take_end(record);
  }
  ConvergenceReading reading() {
    if (!reading_.converged) reading_.samples.reset();
    return reading_;
  }

 private:
  void crash(const LogRecord& record, std::string_view what) {
    if (reading_.error.empty()) reading_.error = fmt::format("line {}: {}", record.line, what);
  }
  void take_batch(const LogRecord& record) {
    reading_.global_batch = number_of(record.value);
    if (!reading_.global_batch) crash(record, "the global batch size is no number; write one");
  }
  void take_samples(const LogRecord& record, std::optional<double> samples, std::string_view name) {
    // Three decimals, as the official reader rounds fractions of epochs.
    if (samples) last_samples_ = std::nearbyint(*samples * 1e3) / 1e3;
    if (!samples)
      crash(record,
            fmt::format("{} with samples has no number as its {}; the reader of convergence points crashes on it", record.key, name));
  }
  void take_end(const LogRecord& record) {
    if (!record.metadata.is_object() || !record.metadata.contains("status"))
      return crash(record, "run_stop has no status; write success or aborted");
    reading_.converged = record.metadata["status"] == "success";
    if (reading_.converged && !last_samples_) crash(record, "run_stop with success stands before any evaluation");
    reading_.samples = last_samples_;
  }

  SamplesFrom from_;
  RecordsBy by_;
  ConvergenceReading reading_;
  std::optional<double> last_samples_;
};

}  // namespace

RunFigures figures_of(const MlperfLog& log) {
  RunFigures figures;
  const RunTimes times = run_times(log);
  if (times.start && times.stop) figures.minutes = (*times.stop - *times.start) / kMinuteMs;
  figures.initialisation_s = initialisation_s(log);
  for (const LogRecord& record : log.records) {
    if (record.key == "global_batch_size") figures.global_batch = number_of(record.value);
    if (record.key == "train_samples") figures.train_samples = number_of(record.value);
    if (record.key == "submission_benchmark") figures.benchmark = text_of(record.value);
    if (record.key == "run_stop" && record.metadata.is_object())
      figures.status = text_of(record.metadata.value("status", nlohmann::json()));
  }
  collect_evaluations(log, figures);
  derive_rates(figures, times);
  const auto seconds = evaluation_s(log);
  if (seconds && figures.minutes && *figures.minutes > 0.0) figures.evaluation_share = *seconds / (*figures.minutes * 60.0);
  return figures;
}

ConvergenceReading read_convergence(const MlperfLog& log, SamplesFrom from, RecordsBy by) {
  ConvergenceReader reader(from, by);
  for (const LogRecord& record : log.records) reader.take(record);
  ConvergenceReading reading = reader.reading();
  const Mentions& broken = log.broken_mentions;
  const bool samples_broken = from == SamplesFrom::kEvaluation ? broken.evaluation : broken.train_samples;
  if (by == RecordsBy::kWords && reading.error.empty() &&
      (broken.global_batch_size || broken.benchmark || broken.run_stop || samples_broken)) {
    reading.error = "a record that cannot be read mentions the batch size, the benchmark, samples or run_stop; mend the line";
  }
  return reading;
}

ConvergenceReading checked_convergence(const MlperfLog& log, SamplesFrom from) {
  ConvergenceReading official = read_convergence(log, from, RecordsBy::kWords);
  const ConvergenceReading by_key = read_convergence(log, from, RecordsBy::kKey);
  if (!official.error.empty()) return official;
  const auto text = [](const ConvergenceReading& r) {
    return fmt::format("{} samples at batch {}{}", r.samples ? fmt::format("{:.10g}", *r.samples) : "no",
                       r.global_batch ? fmt::format("{:.10g}", *r.global_batch) : "unknown", r.converged ? "" : ", not converged");
  };
  if (official.samples != by_key.samples || official.global_batch != by_key.global_batch || official.converged != by_key.converged) {
    official.error = fmt::format(
        "the official reader takes any record that mentions a key for that key and reads {}, where the log says {}; keep "
        "names of keys out of other records' texts and write run_stop without escapes",
        text(official), text(by_key));
  }
  return official;
}

}  // namespace flashbert
