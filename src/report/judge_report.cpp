#include "report/judge_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/text_plot.h"

namespace flashbert {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

/// Counts are written as whole numbers where they are whole.
Json count_or_null(const std::optional<double>& value) {
  constexpr double kExact = 9e15;
  if (!value || !std::isfinite(*value)) return {};
  return std::nearbyint(*value) == *value && std::abs(*value) < kExact ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json findings_json(const std::vector<LogFinding>& findings) {
  Json list = Json::array();
  for (const LogFinding& finding : findings) {
    list.push_back({{"rule", finding.rule}, {"message", finding.message}, {"line", finding.line > 0 ? Json(finding.line) : Json()}});
  }
  return list;
}

const char* name_of(Division division) { return division == Division::kClosed ? "closed" : division == Division::kOpen ? "open" : ""; }

const char* name_of(RcpVerdict verdict) {
  return verdict == RcpVerdict::kPass ? "pass" : verdict == RcpVerdict::kFail ? "fail" : "missing";
}

const char* name_of(RcpMatch match) {
  switch (match) {
    case RcpMatch::kExact:
      return "exact";
    case RcpMatch::kInterpolated:
      return "interpolated";
    case RcpMatch::kBelow:
      return "below";
    default:
      return "above";
  }
}

Json run_json(const JudgedRun& run) {
  const RunFigures& figures = run.figures;
  Json evaluations = Json::array();
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    evaluations.push_back({{"samples", count_or_null(evaluation.samples)},
                           {"accuracy", or_null(evaluation.accuracy)},
                           {"time_ms", count_or_null(evaluation.time_ms)}});
  }
  return {{"file", run.file.string()},
          {"compliant", run.verdict.compliant},
          {"failures", findings_json(run.verdict.failures)},
          {"warnings", findings_json(run.verdict.warnings)},
          {"target_reached", or_null(figures.target_reached)},
          {"status", text_or_null(figures.status)},
          {"minutes", or_null(figures.minutes)},
          {"samples", count_or_null(run.convergence.samples)},
          {"accuracy", or_null(figures.accuracy)},
          {"global_batch", count_or_null(figures.global_batch)},
          {"benchmark", text_or_null(figures.benchmark)},
          {"division", text_or_null(name_of(run.division))},
          {"train_samples", count_or_null(figures.train_samples)},
          {"initialisation_s", or_null(figures.initialisation_s)},
          {"samples_per_s", or_null(figures.samples_per_s)},
          {"start_up_s", or_null(figures.start_up_s)},
          {"evaluation_share", or_null(figures.evaluation_share)},
          {"evaluations", evaluations}};
}

Json rcp_json(const SetConvergence& rcp, Ruleset ruleset) {
  Json json = {{"ruleset", name_of_ruleset(ruleset)},
               {"mean", nullptr},
               {"min_mean", nullptr},
               {"verdict", rcp.verdict ? Json(name_of(*rcp.verdict)) : Json()},
               {"scaling_factor", or_null(rcp.scaling_factor)},
               {"deviation", nullptr},
               {"match", nullptr},
               {"reference_batch", nullptr},
               {"reason", rcp.reason}};
  if (!rcp.reference) return json;
  json["mean"] = rcp.reference->mean;
  json["min_mean"] = rcp.reference->min_mean;
  json["deviation"] = rcp.reference->deviation;
  json["match"] = name_of(rcp.reference->match);
  json["reference_batch"] = count_or_null(rcp.reference->global_batch);
  return json;
}

std::string shown(const std::optional<double>& value, const char* unit, int digits) {
  if (!value) return "-";
  const double scale = std::pow(10.0, digits);
  const double rounded = std::nearbyint(*value * scale) / scale + 0.0;  // + 0.0: no "-0.0"
  return fmt::format("{:.{}f}{}", rounded, digits, unit);
}

std::string finding_text(const char* kind, const LogFinding& finding) {
  return fmt::format("  {} {}{}: {}\n", kind, finding.line > 0 ? fmt::format("line {}: ", finding.line) : "", finding.rule,
                     finding.message);
}

std::string run_text(const JudgedRun& run, Ruleset ruleset) {
  const RunFigures& figures = run.figures;
  std::string text =
      fmt::format("{}: {} by {}\n", run.file.string(), run.verdict.compliant ? "compliant" : "NOT COMPLIANT", name_of_ruleset(ruleset));
  text += fmt::format("  {} min, {} samples to target, accuracy {}, batch {}, status {}\n", shown(figures.minutes, "", 3),
                      shown(run.convergence.samples, "", 0), shown(figures.accuracy, "", 4), shown(figures.global_batch, "", 0),
                      figures.status.empty() ? "-" : figures.status);
  text += fmt::format("  {} samples/s between evaluations, start-up {}, initialisation {}", shown(figures.samples_per_s, "", 1),
                      shown(figures.start_up_s, " s", 1), shown(figures.initialisation_s, " s", 1));
  if (figures.evaluation_share) text += fmt::format(", evaluation {:.1f} % of the time", 100.0 * *figures.evaluation_share);
  text += "\n";
  for (const LogFinding& finding : run.verdict.failures) text += finding_text("FAIL", finding);
  for (const LogFinding& finding : run.verdict.warnings) text += finding_text("note", finding);
  return text;
}

std::string set_text(const SetScore& set, Ruleset ruleset) {
  std::string text = fmt::format("set {}: {} runs{}\n", set.dir.string(), set.runs,
                                 set.not_converged > 0 ? fmt::format(", {} not converged", set.not_converged) : "");
  text +=
      fmt::format("  score {} min (mean without fastest and slowest {} min, scaling {}), {} samples\n", shown(set.scaled_minutes, "", 3),
                  shown(set.olympic_minutes, "", 3), shown(set.rcp.scaling_factor, "", 4), shown(set.olympic_samples, "", 0));
  text += fmt::format("  reference convergence by {}: {}; {}\n", name_of_ruleset(ruleset),
                      set.rcp.verdict ? name_of(*set.rcp.verdict) : "does not apply", set.rcp.reason);
  return text;
}

std::string curve_table(const RunFigures& figures) {
  std::string text = fmt::format("{:>12} {:>12} {:>10}\n", "samples", "time_ms", "accuracy");
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    text +=
        fmt::format("{:>12} {:>12.0f} {:>10}\n", shown(evaluation.samples, "", 0), evaluation.time_ms, shown(evaluation.accuracy, "", 6));
  }
  return text;
}

std::string curve_picture(const RunFigures& figures) {
  AccuracyCurve curve{.points = {}, .target = kTargetAccuracy};
  for (const LoggedEvaluation& evaluation : figures.evaluations) {
    const bool drawable = evaluation.samples && evaluation.accuracy && *evaluation.samples >= 0.0 && *evaluation.samples < 1e15;
    if (drawable) curve.points.emplace_back(static_cast<std::int64_t>(*evaluation.samples), *evaluation.accuracy);
  }
  std::sort(curve.points.begin(), curve.points.end());
  return curve.points.empty() ? std::string() : fmt::format("\n{}", plot_text(curve));
}

}  // namespace

nlohmann::ordered_json judged_json(const JudgedLogs& judged, Ruleset ruleset) {
  Json json = {{"logs", Json::array()}, {"sets", Json::array()}};
  for (const JudgedRun& run : judged.runs) json["logs"].push_back(run_json(run));
  for (const SetScore& set : judged.sets) {
    json["sets"].push_back({{"dir", set.dir.string()},
                            {"runs", set.runs},
                            {"not_converged", set.not_converged},
                            {"olympic_minutes", or_null(set.olympic_minutes)},
                            {"scaled_minutes", or_null(set.scaled_minutes)},
                            {"olympic_samples", count_or_null(set.olympic_samples)},
                            {"rcp", rcp_json(set.rcp, ruleset)}});
  }
  return json;
}

std::string judged_text(const JudgedLogs& judged, Ruleset ruleset, CurveAs curve) {
  std::string text;
  for (const JudgedRun& run : judged.runs) text += run_text(run, ruleset);
  for (const SetScore& set : judged.sets) text += set_text(set, ruleset);
  if (judged.runs.size() == 1)
    text += curve == CurveAs::kTable ? curve_table(judged.runs[0].figures) : curve_picture(judged.runs[0].figures);
  return text;
}

bool all_good(const JudgedLogs& judged) {
  const auto compliant = [](const JudgedRun& run) { return run.verdict.compliant; };
  const auto passes = [](const SetScore& set) { return !set.rcp.verdict || set.rcp.verdict == RcpVerdict::kPass; };
  return std::all_of(judged.runs.begin(), judged.runs.end(), compliant) && std::all_of(judged.sets.begin(), judged.sets.end(), passes);
}

}  // namespace flashbert
