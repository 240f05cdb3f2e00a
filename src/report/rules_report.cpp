#include <fmt/format.h>

#include "report/evaluation_points.h"
#include "report/judge_report.h"

namespace flashbert {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kShownEvaluations = 5;

const char* name_of(Count count) {
  return count == Count::kOnce ? "once" : count == Count::kAtLeastOnce ? "at least once" : "where there is one";
}

const char* name_of(Division division) { return division == Division::kClosed ? "closed" : division == Division::kOpen ? "open" : "both"; }

const char* wanted_by(Condition condition) {
  switch (condition) {
    case Condition::kNotEmpty:
      return "not empty";
    case Condition::kDivision:
      return "closed or open";
    case Condition::kStatus:
      return "cloud, onprem, preview or research";
    case Condition::kBenchmark:
      return "bert";
    case Condition::kBeforeClock:
      return "before init_stop and run_start";
    case Condition::kInitialisation:
      return "after init_start, before run_start, in time";
    case Condition::kAfterInitStop:
      return "after init_stop";
    case Condition::kAfterRunStart:
      return "after run_start";
    case Condition::kPositive:
      return "a number above 0";
    case Condition::kAccuracy:
      return "numbers; closed: one from 0.720 to below 1.0, open: one below 1.0";
    case Condition::kBlockLength:
      return "after run_start, of a length that is not negative";
    case Condition::kTensor:
      return "each of the reference's 398 tensors once";
    default:
      return "";
  }
}

std::string metadata_of(const KeyRule& rule) {
  if (rule.metadata.empty()) return {};
  return rule.or_metadata.empty() ? std::string(rule.metadata) : fmt::format("{} or {}", rule.metadata, rule.or_metadata);
}

std::vector<KeyRule> rules_in(Ruleset ruleset) {
  std::vector<KeyRule> rules;
  for (const KeyRule& rule : key_rules()) {
    if (rule.rulesets.holds(ruleset)) rules.push_back(rule);
  }
  return rules;
}

Json evaluations_json(std::int64_t global_batch) {
  const std::int64_t interval = mlperf_evaluation_interval(global_batch);
  Json json = {{"global_batch", global_batch}, {"interval_samples", interval}, {"steps", Json::array()}, {"samples", Json::array()}};
  for (int k = 1; k <= kShownEvaluations; ++k) {
    const std::int64_t step = evaluation_step(k, interval, global_batch);
    json["steps"].push_back(step);
    json["samples"].push_back(step * global_batch);
  }
  return json;
}

Json reference_json(Ruleset ruleset, std::int64_t global_batch, RcpMethod method) {
  const RcpReference reference = rcp_reference(ruleset, static_cast<double>(global_batch), method);
  if (reference.match == RcpMatch::kAbove) return {{"match", "above"}};
  const char* const match = reference.match == RcpMatch::kExact ? "exact" : reference.match == RcpMatch::kBelow ? "below" : "interpolated";
  return {{"match", match},
          {"reference_batch", static_cast<std::int64_t>(reference.global_batch)},
          {"mean", reference.mean},
          {"deviation", reference.deviation},
          {"min_mean", reference.min_mean}};
}

std::string reference_text(Ruleset ruleset, std::int64_t global_batch) {
  const RcpReference today = rcp_reference(ruleset, static_cast<double>(global_batch), RcpMethod::kToday);
  if (today.match == RcpMatch::kAbove) return "no reference point at or above this batch: such a set fails without a point of its own\n";
  const char* const how = today.match == RcpMatch::kExact          ? "reference point"
                          : today.match == RcpMatch::kInterpolated ? "interpolated between reference points"
                                                                   : "smaller than all: compared with the smallest point";
  std::string text = fmt::format("convergence of ten runs, mean samples without the fastest and the slowest ({}, batch {:.0f}):\n", how,
                                 today.global_batch);
  text += fmt::format("  reference {:.0f}, at least {:.0f} pass; a faster mean multiplies the time by reference / mean\n", today.mean,
                      today.min_mean);
  if (RulesetSpan{"1.0.0", "4.0.0"}.holds(ruleset)) {
    const RcpReference then = rcp_reference(ruleset, static_cast<double>(global_batch), RcpMethod::kUntil2024);
    text += fmt::format("  when the round was held the checker asked for at least {:.0f}\n", then.min_mean);
  }
  return text;
}

}  // namespace

nlohmann::ordered_json rules_json(Ruleset ruleset, std::int64_t global_batch) {
  Json json = {{"ruleset", name_of_ruleset(ruleset)}, {"target_accuracy", kTargetAccuracy}, {"runs", 10}};
  json["initialisation_minutes"] = {{"closed", initialisation_minutes(ruleset, "closed")},
                                    {"open", initialisation_minutes(ruleset, "open")}};
  if (global_batch > 0) {
    json["evaluation"] = evaluations_json(global_batch);
    json["rcp"] = reference_json(ruleset, global_batch, RcpMethod::kToday);
    json["rcp_until_2024"] = reference_json(ruleset, global_batch, RcpMethod::kUntil2024);
  }
  json["points"] = Json::array();
  for (const RcpPoint& point : rcp_points(ruleset, RcpMethod::kToday)) {
    json["points"].push_back({{"global_batch", point.global_batch},
                              {"runs", point.runs},
                              {"mean", point.mean},
                              {"deviation", point.deviation},
                              {"min_mean", point.min_mean},
                              {"used", point.used}});
  }
  json["keys"] = Json::array();
  for (const KeyRule& rule : rules_in(ruleset)) {
    json["keys"].push_back({{"key", rule.key},
                            {"count", name_of(rule.count)},
                            {"division", name_of(rule.division)},
                            {"value", wanted_by(rule.condition)},
                            {"metadata", metadata_of(rule)},
                            {"source", rule.source}});
  }
  return json;
}

std::string rules_text(Ruleset ruleset, std::int64_t global_batch) {
  std::string text = fmt::format(
      "ruleset {}: target masked-LM accuracy {:.3f}, ten runs, initialisation below {:.0f} min (closed) or {:.0f} min (open)\n",
      name_of_ruleset(ruleset), kTargetAccuracy, initialisation_minutes(ruleset, "closed"), initialisation_minutes(ruleset, "open"));
  if (global_batch > 0) {
    const Json evaluations = evaluations_json(global_batch);
    text += fmt::format("evaluation every {} samples at batch {}: after steps {} ..., samples {} ...\n",
                        evaluations["interval_samples"].dump(), global_batch, evaluations["steps"].dump(), evaluations["samples"].dump());
    text += reference_text(ruleset, global_batch);
  } else {
    text += "reference points (* = left out by pruning):\n";
    for (const RcpPoint& point : rcp_points(ruleset, RcpMethod::kToday)) {
      text += fmt::format("  batch {:>6}{} mean {:>8.0f} samples, at least {:>8.0f}, evaluation every {} samples\n", point.global_batch,
                          point.used ? ' ' : '*', point.mean, point.min_mean, mlperf_evaluation_interval(point.global_batch));
    }
  }
  text += "records:\n";
  for (const KeyRule& rule : rules_in(ruleset)) {
    const std::string metadata = metadata_of(rule);
    text += fmt::format("  {:<36} {:<18} {:<6} {}{}{}\n", rule.key, name_of(rule.count), name_of(rule.division), wanted_by(rule.condition),
                        metadata.empty() ? "" : std::string(*wanted_by(rule.condition) == '\0' ? "" : "; ") + "metadata " + metadata,
                        fmt::format("  [{}]", rule.source));
  }
  for (const EitherRule& either : either_rules()) text += fmt::format("  at least one of {} and {}\n", either.key, either.other);
  return text;
}

}  // namespace flashbert
