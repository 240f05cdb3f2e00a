#include "report/run_report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace flashbert::testing {
namespace {

/// Ten steps of 64 samples; rows filled to a quarter; the first step slow.
RunReport example_report() {
  RunReport r;
  r.status = "success";
  r.reason = "target reached";
  r.target_reached = true;
  r.evaluated = true;
  r.accuracy = 0.75;
  r.curve = {.points = {{320, 0.5}, {640, 0.75}}, .target = 0.72};
  r.steps = 10;
  r.global_batch = 64;
  r.train_samples = 640;
  r.eval_samples = 100;
  r.train_tokens = 640 * 32;
  r.padded_tokens = 640 * 128;
  r.run_s = 120.0;
  r.first_step_s = 3.0;
  r.steps_s = 48.0;
  r.timed_steps = 9;
  r.timed_steps_s = 45.0;
  r.timed_tokens = 9 * 64 * 32;
  r.evaluation_s = 60.0;
  r.saving_s = 5.0;
  r.digest = "abc";
  return r;
}

TEST(RunReport, SpeedLeavesOutEvaluationSavingAndTheFirstStep) {
  RunReport report = example_report();
  nlohmann::json json = nlohmann::json::parse(report_json(report));
  // 9 x 64 samples and 32 tokens each in 45 s: both quotients are exact in binary only to rounding, so compare the products.
  EXPECT_DOUBLE_EQ(json.at("seq_per_s").get<double>() * 45.0, 576.0);
  EXPECT_DOUBLE_EQ(json.at("tokens_per_s").get<double>() * 45.0, 18'432.0);
  EXPECT_EQ(json.at("minutes"), 2.0);
  EXPECT_EQ(json.at("filler_share"), 0.75);
  const double speed = json.at("seq_per_s");
  report.saving_s += 5.0;
  report.run_s += 5.0;
  json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json.at("seq_per_s"), speed);
  EXPECT_EQ(json.at("time").at("saving_s"), 10.0);
}

TEST(RunReport, SpeedOfARunOfOneStepIsNotMadeUp) {
  RunReport report = example_report();
  report.timed_steps = 0;
  report.timed_steps_s = 0.0;
  report.timed_tokens = 0;
  const nlohmann::json json = nlohmann::json::parse(report_json(report));
  EXPECT_TRUE(json.at("seq_per_s").is_null());
  EXPECT_TRUE(json.at("tokens_per_s").is_null());
  EXPECT_EQ(report_text(report).find("sequences/s"), std::string::npos);
}

TEST(RunReport, DigestIsTheLastKeyAndCurveIsWhole) {
  const auto json = nlohmann::ordered_json::parse(report_json(example_report()));
  std::string last;
  for (const auto& [key, value] : json.items()) last = key;
  EXPECT_EQ(last, "digest");
  ASSERT_EQ(json.at("curve").size(), 2U);
  EXPECT_EQ(json.at("curve").at(1).at("samples"), 640);
  EXPECT_EQ(json.at("curve").at(1).at("accuracy"), 0.75);
  EXPECT_EQ(json.at("config"), "config.toml");
}

TEST(RunReport, NumbersThatAreNotFiniteAndOddTextKeepItJson) {
  RunReport report = example_report();
  report.accuracy = std::numeric_limits<double>::quiet_NaN();
  report.curve.points.emplace_back(960, report.accuracy);
  report.reason = "cannot read \xff.hdf5";
  const nlohmann::json json = nlohmann::json::parse(report_json(report));
  EXPECT_TRUE(json.at("accuracy").is_null());
  EXPECT_TRUE(json.at("curve").at(2).at("accuracy").is_null());
}

TEST(RunReport, WithoutEvaluationNoAccuracyIsTold) {
  RunReport report;
  report.status = "aborted";
  report.reason = "max-steps 1 reached";
  EXPECT_TRUE(nlohmann::json::parse(report_json(report)).at("accuracy").is_null());
  EXPECT_EQ(report_text(report).find("accuracy"), std::string::npos);
}

TEST(RunReport, TextNamesVerdictTimeAndPicture) {
  const std::string text = report_text(example_report());
  for (const char* const part :
       {"TARGET REACHED", "120.00 s", "640 samples in 10 steps of 64", "12.8 sequences/s", "75.0 %", "0.7500", "target 0.720"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

}  // namespace
}  // namespace flashbert::testing
