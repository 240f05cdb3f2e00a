#include "report/set_score.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "log_support.h"
#include "report/judge_report.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// A set of logs whose last evaluation stands at these samples; 0 = aborted.
std::vector<JudgedRun> judge_set(const TemporaryFolder& folder, const std::vector<std::int64_t>& samples,
                                 const std::string& division = "closed") {
  EditedLog log(division);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    log.at("eval_accuracy", 1)["metadata"]["epoch_num"] = samples[i];
    log.at("run_stop")["metadata"]["status"] = samples[i] > 0 ? "success" : "aborted";
    log.at("run_stop")["time_ms"] = log.at("run_start")["time_ms"].get<std::int64_t>() + 60'000 * static_cast<std::int64_t>(i + 1);
    write_text(folder.path() / ("result_" + std::to_string(i) + ".txt"), log.text());
  }
  std::vector<JudgedRun> runs;
  const FoundLogs found = find_logs(folder.path());
  for (const fs::path& file : found.sets.at(0).files) runs.push_back(judge_run(file, {.ruleset = parse_ruleset("", "5.0.0")}));
  return runs;
}

SetScore score(const std::vector<JudgedRun>& runs) {
  std::vector<const JudgedRun*> pointers;
  for (const JudgedRun& run : runs) pointers.push_back(&run);
  return score_set("set", pointers, parse_ruleset("", "5.0.0"));
}

TEST(OlympicMean, DropsTheSmallestAndTheLargest) {
  EXPECT_EQ(olympic_mean({5, 1, 100, 3}), 4.0);
  EXPECT_EQ(olympic_mean({1, 2}), std::nullopt);
}

TEST(SetScore, SlowerThanTheReferencePassesUnscaled) {
  const TemporaryFolder folder;
  const SetScore result = score(judge_set(folder, std::vector<std::int64_t>(10, 2'500'000)));
  EXPECT_EQ(result.rcp.verdict, RcpVerdict::kPass);
  EXPECT_EQ(result.rcp.scaling_factor, 1.0);
  EXPECT_EQ(result.olympic_samples, 2'500'000.0);
  EXPECT_DOUBLE_EQ(result.olympic_minutes.value(), 5.5);  // runs of 1 to 10 minutes
  EXPECT_DOUBLE_EQ(result.scaled_minutes.value(), 5.5);
}

TEST(SetScore, BetweenMinimumAndMeanIsScaledAndBelowFails) {
  const TemporaryFolder folder, other;
  const SetScore scaled = score(judge_set(folder, std::vector<std::int64_t>(10, 2'400'000)));
  EXPECT_EQ(scaled.rcp.verdict, RcpVerdict::kPass);
  EXPECT_DOUBLE_EQ(scaled.scaled_minutes.value(), 5.5 * (50'702'848.0 / 21) / 2'400'000);
  const SetScore failed = score(judge_set(other, std::vector<std::int64_t>(10, 2'200'000)));
  EXPECT_EQ(failed.rcp.verdict, RcpVerdict::kFail);
  EXPECT_FALSE(failed.scaled_minutes.has_value());
}

TEST(SetScore, OneRunMayMissTheTargetAndTwoMayNot) {
  std::vector<std::int64_t> samples(10, 2'500'000);
  samples[0] = 0;
  const TemporaryFolder folder, other;
  const SetScore one = score(judge_set(folder, samples));
  EXPECT_EQ(one.rcp.verdict, RcpVerdict::kPass);
  EXPECT_DOUBLE_EQ(one.olympic_minutes.value(), 6.5);  // the first counts as the slowest, the second is the fastest
  samples[1] = 0;
  const SetScore two = score(judge_set(other, samples));
  EXPECT_EQ(two.rcp.verdict, RcpVerdict::kFail);
  EXPECT_FALSE(two.olympic_minutes.has_value());
}

TEST(SetScore, OpenSetsHaveAScoreAndNoReference) {
  const TemporaryFolder folder;
  const SetScore result = score(judge_set(folder, std::vector<std::int64_t>(10, 1'000'000), "open"));
  EXPECT_FALSE(result.rcp.verdict.has_value());
  EXPECT_DOUBLE_EQ(result.scaled_minutes.value(), 5.5);
}

TEST(SetScore, MixedBatchesFailByName) {
  const TemporaryFolder folder;
  auto runs = judge_set(folder, std::vector<std::int64_t>(10, 2'500'000));
  runs[3].convergence.global_batch = 512;
  const SetScore result = score(runs);
  EXPECT_EQ(result.rcp.verdict, RcpVerdict::kFail);
  EXPECT_NE(result.rcp.reason.find("512"), std::string::npos);
}

TEST(RunFigures, RatesComeFromTheEvaluations) {
  EditedLog log;
  const auto start = log.at("run_start")["time_ms"].get<std::int64_t>();
  const auto at = [&](std::string_view key, std::size_t nth, std::int64_t s) { log.at(key, nth)["time_ms"] = start + s * 1000; };
  at("eval_start", 0, 90);
  at("eval_accuracy", 0, 100);
  at("eval_stop", 0, 100);
  at("eval_start", 1, 150);
  at("eval_accuracy", 1, 160);
  at("eval_stop", 1, 160);
  at("run_stop", 0, 200);
  const RunFigures figures = figures_of(read_log_text(log.text()));
  EXPECT_DOUBLE_EQ(figures.samples_per_s.value(), 150'080 / 60.0);
  EXPECT_DOUBLE_EQ(figures.start_up_s.value(), 40.0);
  EXPECT_DOUBLE_EQ(figures.evaluation_share.value(), 0.1);
  EXPECT_EQ(figures.target_reached, true);
}

TEST(Rcp, BothMethodsGiveThePublishedMinima) {
  const Ruleset ruleset = parse_ruleset("", "2.1.0");
  EXPECT_NEAR(rcp_reference(ruleset, 448, RcpMethod::kToday).min_mean, 2'274'732, 1);
  EXPECT_NEAR(rcp_reference(ruleset, 448, RcpMethod::kUntil2024).min_mean, 2'295'777, 1);
  EXPECT_NEAR(rcp_reference(ruleset, 3072, RcpMethod::kToday).mean, 2'656'421, 1);
  for (const RcpMethod method : {RcpMethod::kToday, RcpMethod::kUntil2024}) {
    std::vector<std::int64_t> used;
    for (const RcpPoint& point : rcp_points(ruleset, method)) {
      if (point.used) used.push_back(point.global_batch);
    }
    EXPECT_EQ(used, (std::vector<std::int64_t>{448, 4608, 6144, 6912, 12288, 13056, 16384}));
  }
}

TEST(Rcp, OutsideOfThePointsThereIsNoFailureButAMissingPoint) {
  const Ruleset ruleset = parse_ruleset("", "5.0.0");
  EXPECT_EQ(rcp_reference(ruleset, 20'000, RcpMethod::kToday).match, RcpMatch::kAbove);
  const RcpReference below = rcp_reference(ruleset, 64, RcpMethod::kToday);
  EXPECT_EQ(below.match, RcpMatch::kBelow);
  EXPECT_EQ(rcp_verdict(below, 2'200'000), RcpVerdict::kMissing);
  EXPECT_EQ(rcp_verdict(below, 2'300'000), RcpVerdict::kPass);
}

TEST(FindLogs, SetsAreFoldersOfResultsOrOfRuns) {
  const TemporaryFolder folder;
  for (const char* const name : {"a/result_10.txt", "a/result_9.txt", "b/run1/mllog.txt", "b/run2/mllog.txt", "b/notes.txt"}) {
    fs::create_directories((folder.path() / name).parent_path());
    write_text(folder.path() / name, ":::MLLOG {}\n");
  }
  const FoundLogs found = find_logs(folder.path());
  EXPECT_EQ(found.files.size(), 4U);
  ASSERT_EQ(found.sets.size(), 2U);
  EXPECT_EQ(found.sets[0].dir, folder.path() / "a");
  EXPECT_EQ(found.sets[0].files[0].filename(), "result_9.txt");
  EXPECT_EQ(found.sets[1].dir, folder.path() / "b");
  EXPECT_TRUE(find_logs(folder.path() / "a/result_9.txt").sets.empty());
  fs::create_directories(folder.path() / "empty");
  EXPECT_THROW(find_logs(folder.path() / "empty"), InputError);
}

TEST(JudgeReport, JsonHasNullWhereALogDoesNotTell) {
  const TemporaryFolder folder;
  write_text(folder.path() / "log", ":::MLLOG {\"time_ms\": 1, \"key\": \"seed\", \"value\": 1, \"metadata\": {}}\n");
  JudgedLogs judged;
  judged.runs.push_back(judge_run(folder.path() / "log", {}));
  const auto log = judged_json(judged, 0).at("logs").at(0);
  for (const char* const key : {"target_reached", "status", "minutes", "samples", "accuracy", "global_batch"})
    EXPECT_TRUE(log.at(key).is_null()) << key;
  EXPECT_EQ(log.at("compliant"), false);
  EXPECT_FALSE(all_good(judged));
}

}  // namespace
}  // namespace flashbert::testing
