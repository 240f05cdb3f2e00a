#include <gtest/gtest.h>

#include "log_support.h"
#include "report/evaluation_points.h"
#include "report/judge_report.h"
#include "support/shared_data.h"

// Published logs and synthetic ones with the official tools' verdicts.

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kRelative = 1e-6;

void expect_near(double got, const json& want, const std::string& what) {
  EXPECT_NEAR(got, want.get<double>(), kRelative * std::abs(want.get<double>())) << what;
}

/// The figure, or NaN where there is none.
double figure(const std::optional<double>& value) { return value.value_or(std::nan("")); }

JudgedRun judged(const fs::path& file, std::string_view ruleset, SamplesFrom from = SamplesFrom::kEvaluation) {
  return judge_run(file, {.ruleset = parse_ruleset("", ruleset), .samples_from = from});
}

SetScore scored(const fs::path& folder, std::string_view ruleset, SamplesFrom from = SamplesFrom::kEvaluation) {
  std::vector<JudgedRun> runs;
  const FoundLogs found = find_logs(folder);
  for (const fs::path& file : found.sets.at(0).files) runs.push_back(judged(file, ruleset, from));
  std::vector<const JudgedRun*> pointers;
  for (const JudgedRun& run : runs) pointers.push_back(&run);
  return score_set(folder, pointers, parse_ruleset("", ruleset));
}

void expect_convergence(const SetScore& score, const json& want, const std::string& what) {
  const bool missing = want.at("message").get<std::string>().starts_with("Missing RCP");
  const RcpVerdict verdict = want.at("verdict") == "pass" ? RcpVerdict::kPass : missing ? RcpVerdict::kMissing : RcpVerdict::kFail;
  EXPECT_EQ(score.rcp.verdict, verdict) << what << ": " << score.rcp.reason;
  EXPECT_EQ(score.rcp.scaling_factor.has_value(), !want.at("scaling_factor").is_null()) << what;
  if (score.rcp.scaling_factor) expect_near(*score.rcp.scaling_factor, want.at("scaling_factor"), what);
  if (!want.contains("rcp_mean")) return;
  ASSERT_TRUE(score.rcp.reference.has_value()) << what;
  expect_near(score.rcp.reference->mean, want.at("rcp_mean"), what);
  expect_near(score.rcp.reference->deviation, want.at("rcp_std"), what);
  expect_near(score.rcp.reference->min_mean, want.at("rcp_min_mean"), what);
  expect_near(figure(score.olympic_samples), want.at("submission_mean_samples"), what);
}

TEST(JudgedData, PublishedRunsHaveTheirVerdictsAndFigures) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path folder = shared / "data/results-v2.1";
  const auto expected = read_json(folder / "expected.json");
  for (const auto& [set, content] : expected.at("folders").items()) {
    for (const auto& [name, want] : content.at("runs").items()) {
      const std::string what = set + "/" + name;
      for (const auto& [ruleset, verdict] : want.at("compliance").items()) {
        EXPECT_EQ(judged(folder / set / name, ruleset).verdict.compliant, verdict == "pass") << what << " " << ruleset;
      }
      const JudgedRun run = judged(folder / set / name, "5.0.0");
      expect_near(figure(run.figures.minutes), want.at("minutes"), what);
      expect_near(figure(run.figures.initialisation_s), want.at("init_seconds"), what);
      expect_near(figure(run.figures.accuracy), want.at("final_accuracy"), what);
      EXPECT_EQ(figure(run.convergence.samples), want.at("samples_to_converge")) << what;
      EXPECT_EQ(figure(run.figures.global_batch), want.at("global_batch_size")) << what;
      std::vector<double> points;
      for (const LoggedEvaluation& evaluation : run.figures.evaluations) points.push_back(figure(evaluation.samples));
      EXPECT_EQ(points, want.at("eval_points").get<std::vector<double>>()) << what;
    }
  }
}

TEST(JudgedData, PublishedSetsHaveTheirScores) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path folder = shared / "data/results-v2.1";
  const auto expected = read_json(folder / "expected.json");
  for (const auto& [set, content] : expected.at("folders").items()) {
    for (const auto& [ruleset, want] : content.at("rcp").items()) {
      const SetScore score = scored(folder / set, ruleset);
      expect_near(figure(score.olympic_minutes), content.at("olympic_mean_minutes"), set);
      expect_near(figure(score.scaled_minutes), content.at("score_minutes").at(ruleset), set + " " + ruleset);
      expect_convergence(score, want, set + " " + ruleset);
    }
    EXPECT_NEAR(figure(scored(folder / set, "2.1.0").scaled_minutes), content.at("published_minutes").get<double>(), 0.0005) << set;
  }
}

TEST(JudgedData, VariantsHaveTheOfficialVerdictInEveryRuleset) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path folder = shared / "data/logs/variants";
  const auto expected = read_json(folder / "expected.json");
  for (const auto& [name, want] : expected.at("variants").items()) {
    for (const auto& [ruleset, verdict] : want.at("all_rulesets").items()) {
      EXPECT_EQ(judged(folder / name, ruleset).verdict.compliant, verdict == "pass") << name << " " << ruleset;
    }
    const JudgedRun run = judged(folder / name, "5.0.0");
    // The tool reads no time from a log that it crashes on.
    if (!want.at("minutes").is_null()) expect_near(figure(run.figures.minutes), want.at("minutes"), name);
    const json& reader = want.at("rcp_reader");
    EXPECT_EQ(!run.convergence.error.empty(), reader.contains("exception")) << name << run.convergence.error;
    if (reader.contains("exception")) continue;
    EXPECT_EQ(run.convergence.converged, reader.at("converged")) << name;
  }
}

TEST(JudgedData, SyntheticSetsHaveTheOfficialConvergence) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path folder = shared / "data/logs/rcp";
  const auto expected = read_json(folder / "expected.json");
  for (const auto& [set, content] : expected.at("sets").items()) {
    for (const auto& [ruleset, want] : content.at("verdicts").items()) {
      expect_convergence(scored(folder / set, ruleset), want, set + " " + ruleset);
    }
    if (!content.contains("verdicts_bert_train_samples")) continue;
    for (const auto& [ruleset, want] : content.at("verdicts_bert_train_samples").items()) {
      expect_convergence(scored(folder / set, ruleset, SamplesFrom::kTrainSamples), want, set + " by train_samples " + ruleset);
    }
  }
}

TEST(JudgedData, ReferenceTableHasTheOfficialNumbers) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const json table = read_json(shared / "data/logs/rcp_table.json");
  for (const auto& [ruleset, points] : table.at("points").items()) {
    const auto ours = rcp_points(parse_ruleset("", ruleset), RcpMethod::kToday);
    ASSERT_EQ(ours.size(), points.size()) << ruleset;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].global_batch, points[i].at("global_batch_size"));
      EXPECT_EQ(ours[i].used, points[i].at("in_pruned_set")) << ruleset << " " << ours[i].global_batch;
      expect_near(ours[i].min_mean, points[i].at("min_mean"), ruleset);
    }
  }
  for (const json& row : table.at("rows")) {
    const RcpReference ours = rcp_reference(parse_ruleset("", row.at("ruleset").get<std::string>()),
                                            row.at("global_batch_size").get<double>(), RcpMethod::kToday);
    const bool above = row.at("match") == "above";
    EXPECT_EQ(ours.match == RcpMatch::kAbove, above) << row;
    if (above) continue;
    expect_near(ours.mean, row.at("mean"), row.dump());
    expect_near(ours.deviation, row.at("std"), row.dump());
    expect_near(ours.min_mean, row.at("min_mean"), row.dump());
  }
}

TEST(JudgedData, EvaluationScheduleIsExact) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const auto schedule = read_json(shared / "data/logs/eval_schedule.json");
  for (const json& row : schedule.at("rows")) {
    const auto batch = row.at("global_batch_size").get<std::int64_t>();
    const std::int64_t interval = mlperf_evaluation_interval(batch);
    EXPECT_EQ(interval, row.at("interval_samples")) << row;
    for (std::size_t k = 0; k < row.at("steps").size(); ++k) {
      const std::int64_t step = evaluation_step(static_cast<std::int64_t>(k) + 1, interval, batch);
      EXPECT_EQ(step, row.at("steps")[k]) << row;
      EXPECT_EQ(step * batch, row.at("samples")[k]) << row;
    }
  }
}

}  // namespace
}  // namespace flashbert::testing
