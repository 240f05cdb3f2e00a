#include "report/mlperf_run.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "report_support.h"

namespace flashbert::testing {
namespace {

const char* const kExactlyOnce[] = {"submission_benchmark",
                                    "submission_division",
                                    "submission_org",
                                    "submission_status",
                                    "submission_platform",
                                    "seed",
                                    "global_batch_size",
                                    "gradient_accumulation_steps",
                                    "opt_base_learning_rate",
                                    "opt_epsilon",
                                    "opt_lamb_epsilon",
                                    "opt_learning_rate_training_steps",
                                    "opt_learning_rate_warmup_steps",
                                    "num_warmup_steps",
                                    "start_warmup_step",
                                    "opt_lamb_beta_1",
                                    "opt_lamb_beta_2",
                                    "opt_lamb_weight_decay_rate",
                                    "eval_samples",
                                    "train_samples",
                                    "init_stop",
                                    "run_start",
                                    "run_stop"};

TEST(MlperfRun, WritesEveryRequiredKeyExactlyOnce) {
  const TemporaryFolder folder;
  write_run(folder.path() / "log", bert_large_run("closed"));
  const auto records = read_records(folder.path() / "log");
  for (const char* const key : kExactlyOnce) EXPECT_EQ(places_of(records, key).size(), 1U) << key;
  EXPECT_EQ(places_of(records, "weights_initialization").size(), 398U);
}

TEST(MlperfRun, KeepsTheOrderThatTheRulesNeed) {
  const TemporaryFolder folder;
  write_run(folder.path() / "log", bert_large_run("closed"));
  const auto records = read_records(folder.path() / "log");
  const char* const order[] = {"cache_clear", "init_start", "submission_division", "init_stop",     "run_start", "epoch_start",
                               "block_start", "block_stop", "epoch_stop",          "train_samples", "run_stop"};
  std::size_t last = 0;
  for (const char* const key : order) {
    const auto places = places_of(records, key);
    ASSERT_EQ(places.size(), 1U) << key;
    EXPECT_GE(places[0], last) << key;
    last = places[0];
  }
  EXPECT_EQ(last, records.size() - 1);
  const auto starts = places_of(records, "eval_start"), values = places_of(records, "eval_accuracy"),
             stops = places_of(records, "eval_stop");
  ASSERT_EQ(starts.size(), 2U);
  ASSERT_EQ(values.size(), 2U);
  ASSERT_EQ(stops.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LT(starts[i], values[i]);
    EXPECT_LT(values[i], stops[i]);
  }
  EXPECT_EQ(records[values[1]].at("metadata").at("epoch_num"), 300'160);
  EXPECT_EQ(records[values[1]].at("metadata").at("step_num"), 670);
}

TEST(MlperfRun, EvaluationAloneStillWritesAPair) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  run.begin_initialisation();
  run.describe(bert_large_run("open"));
  run.start_clock();
  run.evaluation(448, 0.3);
  const auto records = read_records(folder.path() / "log");
  EXPECT_EQ(places_of(records, "eval_start").size(), 1U);
  EXPECT_EQ(places_of(records, "eval_stop").size(), 1U);
}

TEST(MlperfRun, StopsExactlyOnceAndKeepsTheFirstVerdict) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  run.begin_initialisation();
  run.describe(bert_large_run("open"));
  run.start_clock();
  EXPECT_TRUE(run.clock_started());
  run.finish(896, MlperfRun::Outcome::kAborted);
  run.finish(1344, MlperfRun::Outcome::kSuccess);
  EXPECT_TRUE(run.clock_started());
  const auto records = read_records(folder.path() / "log");
  const auto places = places_of(records, "run_stop");
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(records[places[0]].at("metadata").at("status"), "aborted");
  EXPECT_EQ(records[places_of(records, "train_samples").at(0)].at("value"), 896);
}

TEST(MlperfRun, EndInsideAnEvaluationClosesIt) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  run.begin_initialisation();
  run.describe(bert_large_run("open"));
  run.start_clock();
  run.begin_evaluation(448);
  run.finish(448, MlperfRun::Outcome::kAborted);
  const auto records = read_records(folder.path() / "log");
  EXPECT_EQ(places_of(records, "eval_stop").size(), 1U);
  EXPECT_TRUE(places_of(records, "eval_accuracy").empty());
}

TEST(MlperfRun, EndBeforeTheClockWritesNoStop) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  run.begin_initialisation();
  run.finish(0, MlperfRun::Outcome::kAborted);
  EXPECT_TRUE(places_of(read_records(folder.path() / "log"), "run_stop").empty());
  EXPECT_EQ(run.elapsed_s(), 0.0);
}

TEST(MlperfRun, ElapsedTimeStandsStillAfterTheEnd) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  run.begin_initialisation();
  run.describe(bert_large_run("open"));
  run.start_clock();
  run.finish(0, MlperfRun::Outcome::kAborted);
  const double first = run.elapsed_s();
  EXPECT_GE(first, 0.0);
  EXPECT_EQ(run.elapsed_s(), first);
}

TEST(MlperfRun, TextsThatReadersWouldTakeForAnotherRecordAreRefused) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  MlperfRun run(log);
  for (const char* const text : {"", "x:::MLLOG y", "my global_batch_size machine", "eval_accuracy", "train_samples"}) {
    RunDescription description = bert_large_run("open");
    description.platform = text;
    EXPECT_THROW(run.describe(description), ConfigError) << text;
  }
  EXPECT_TRUE(read_lines(folder.path() / "log").empty());
}

/// Only a record's own line may hold the words that the readers search whole lines for.
TEST(MlperfRun, NoLineHoldsAnotherRecordsKey) {
  const TemporaryFolder folder;
  write_run(folder.path() / "log", bert_large_run("closed"));
  for (const nlohmann::json& record : read_records(folder.path() / "log")) {
    for (const char* const word :
         {"global_batch_size", "submission_benchmark", "train_samples", "eval_accuracy", "eval_error", "run_stop"}) {
      const bool held = record.dump().find(word) != std::string::npos;
      EXPECT_TRUE(!held || record.at("key") == word) << record;
    }
  }
}

}  // namespace
}  // namespace flashbert::testing
