// Limits, points and saves by what they do to a run.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// A model of a few thousand weights in batches of 16, with nothing to evaluate.
std::string tiny_run() {
  return fmt::format(
      "--layers 1 --hidden 16 --heads 2 --intermediate 16 --vocab 1024 --max-positions 128 --precision f32 --threads 1 --seed 5 "
      "--global-batch 16 --train-data {}/train",
      small_data().string());
}

std::string tiny_evaluation() { return fmt::format(" --eval-samples 20 --eval-data {}/eval", small_data().string()); }

std::set<std::string> saves_of(const TrainedRun& run) {
  std::set<std::string> names;
  if (!fs::exists(run.out / "checkpoints")) return names;
  for (const auto& entry : fs::directory_iterator(run.out / "checkpoints")) names.insert(entry.path().filename().string());
  return names;
}

std::vector<std::int64_t> samples_of(const nlohmann::json& curve) {
  std::vector<std::int64_t> samples;
  for (const auto& point : curve) samples.push_back(point["samples"]);
  return samples;
}

TEST(ProgramLimits, StepsAreTheFirstThatReachTheNearestLimit) {
  struct Row {
    int max_steps, max_samples, steps;
  };
  for (const Row& row : {Row{3, 0, 3}, Row{0, 47, 3}, Row{0, 48, 3}, Row{0, 49, 4}, Row{0, 1, 1}, Row{5, 20, 2}, Row{2, 1000, 2}}) {
    const TrainedRun run = train("limits", tiny_run() + fmt::format(" --max-steps {} --max-samples {}", row.max_steps, row.max_samples));
    EXPECT_EQ(run.status, 0) << run.output;
    const auto report = run.report();
    const std::string limits = fmt::format("max-steps {} max-samples {}", row.max_steps, row.max_samples);
    EXPECT_EQ(report["steps"], row.steps) << limits;
    EXPECT_EQ(report["train_samples"], 16 * row.steps) << limits;
    EXPECT_EQ(std::ssize(run.metrics()), row.steps) << limits;
    const auto last = run.log("train_samples");
    ASSERT_EQ(last.size(), 1U);
    EXPECT_EQ(last[0]["value"], 16 * row.steps) << limits;
    EXPECT_TRUE(report["curve"].empty());
    EXPECT_FALSE(fs::exists(run.out / "checkpoints"));  // none was asked for
  }
}

TEST(ProgramLimits, EvalAtStartAddsThePointBeforeTheFirstStep) {
  const std::string options = tiny_run() + tiny_evaluation() + " --eval-every-samples 30 --max-steps 5 --target-accuracy 1 ";
  const TrainedRun without = train("at-start-not", options);
  EXPECT_EQ(samples_of(without.report()["curve"]), (std::vector<std::int64_t>{32, 64, 80})) << without.output;
  const TrainedRun with = train("at-start", options + "--eval-at-start");
  EXPECT_EQ(samples_of(with.report()["curve"]), (std::vector<std::int64_t>{0, 32, 64, 80})) << with.output;
  EXPECT_TRUE(with.metrics().front().contains("eval_accuracy"));
  EXPECT_EQ(with.report()["digest"], without.report()["digest"]);  // looking changes nothing
}

TEST(ProgramLimits, AnEvaluationOffTheScheduleIsToldButEndsNoClosedRunWithSuccess) {
  const std::string options = tiny_run() + tiny_evaluation() + " --eval-every-samples 1000 --max-steps 2 --target-accuracy 0 ";
  const TrainedRun open = train("off-schedule-open", options);
  EXPECT_EQ(open.status, 0) << open.output;
  open.expect_one_stop("success");
  const TrainedRun closed = train("off-schedule-closed", options +
                                                             " --submission-division closed --submission-org example "
                                                             "--submission-status research --submission-platform cpu");
  EXPECT_EQ(closed.status, 1) << closed.output;
  closed.expect_one_stop("aborted");
  for (const TrainedRun& run : {open, closed}) EXPECT_EQ(samples_of(run.report()["curve"]), (std::vector<std::int64_t>{32}));
}

TEST(ProgramLimits, ATargetThatIsReachedAtTheStartEndsTheRunWithoutAStep) {
  const TrainedRun run =
      train("reached", tiny_run() + tiny_evaluation() + " --max-steps 5 --target-accuracy 0 --eval-at-start --save-every-steps 1");
  EXPECT_EQ(run.status, 0) << run.output;
  run.expect_one_stop("success");
  const auto report = run.report();
  EXPECT_EQ(report["steps"], 0);
  EXPECT_EQ(report["train_samples"], 0);
  EXPECT_EQ(report["status"], "success");
  EXPECT_TRUE(report["seq_per_s"].is_null());
  EXPECT_EQ(samples_of(report["curve"]), (std::vector<std::int64_t>{0}));
  EXPECT_TRUE(run.step_metrics().empty());
  EXPECT_TRUE(saves_of(run).empty());
}

TEST(ProgramLimits, SeveralPointsOnOneStepAreOneEvaluation) {
  // Points after 10, 20, ..., 80 samples: a batch of 16 passes one or two of them.
  const TrainedRun run =
      train("dense-points", tiny_run() + tiny_evaluation() + " --eval-every-samples 10 --max-steps 5 --target-accuracy 1");
  EXPECT_EQ(samples_of(run.report()["curve"]), (std::vector<std::int64_t>{16, 32, 48, 64, 80})) << run.output;
}

TEST(ProgramLimits, SavesStandAtTheirStepsAndAtTheEndWhereAsked) {
  struct Row {
    std::string options;
    std::set<std::string> saves;
  };
  const std::set<std::string> two_and_four = {"latest", "step-00000002", "step-00000004"};
  for (const Row& row : {Row{"--max-steps 5 --save-every-steps 2 --keep 9", two_and_four},
                         Row{"--max-steps 4 --save-every-steps 2 --keep 9 --save-at-end", two_and_four},
                         Row{"--max-steps 5 --save-every-steps 2 --keep 1", {"latest", "step-00000004"}},
                         Row{"--max-steps 3 --save-at-end", {"latest", "step-00000003"}}}) {
    const TrainedRun run = train("saves", tiny_run() + " " + row.options);
    EXPECT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(saves_of(run), row.saves) << row.options;
    std::string latest;
    std::ifstream(run.out / "checkpoints/latest") >> latest;
    EXPECT_EQ(latest, *row.saves.rbegin()) << row.options;
  }
}

}  // namespace
}  // namespace flashbert::testing
