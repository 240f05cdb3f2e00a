#include "report/evaluation_points.h"

#include <gtest/gtest.h>

#include <vector>

namespace flashbert::testing {
namespace {

TEST(EvaluationPoints, IntervalFollowsTheRule) {
  struct Case {
    std::int64_t global_batch, interval;
  };
  for (const Case& c :
       {Case{256, 150'000}, Case{448, 150'000}, Case{1536, 150'000}, Case{2048, 150'000}, Case{3072, 175'000}, Case{4096, 175'000},
        Case{4608, 200'000}, Case{6144, 200'000}, Case{8192, 225'000}, Case{12288, 275'000}, Case{16384, 325'000}})
    EXPECT_EQ(mlperf_evaluation_interval(c.global_batch), c.interval) << c.global_batch;
}

TEST(EvaluationPoints, FirstEvaluationIsNeverEarlyAndLessThanABatchLate) {
  struct Case {
    std::int64_t global_batch, step, samples;
  };
  for (const Case& c :
       {Case{256, 586, 150'016}, Case{448, 335, 150'080}, Case{1536, 98, 150'528}, Case{3072, 57, 175'104}, Case{8192, 28, 229'376}}) {
    const std::int64_t step = evaluation_step(1, mlperf_evaluation_interval(c.global_batch), c.global_batch);
    EXPECT_EQ(step, c.step) << c.global_batch;
    EXPECT_EQ(step * c.global_batch, c.samples) << c.global_batch;
  }
}

TEST(EvaluationPoints, RoundingDoesNotAddUp) {
  EXPECT_EQ(evaluation_step(6, 150'000, 448), 2009);
  EXPECT_EQ(2009 * 448, 900'032);
  for (std::int64_t k = 1; k <= 1000; ++k) {
    const std::int64_t samples = evaluation_step(k, 150'000, 448) * 448;
    EXPECT_GE(samples, k * 150'000);
    EXPECT_LT(samples, k * 150'000 + 448);
  }
}

TEST(EvaluationPoints, ChosenIntervalGivesTheFinerGrid) {
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 1; k <= 5; ++k) steps.push_back(evaluation_step(k, 25'000, 448));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{56, 112, 168, 224, 280}));
}

TEST(EvaluationPoints, IntervalThatIsAMultipleOfTheBatchIsHitExactly) {
  for (std::int64_t k = 1; k <= 4; ++k) EXPECT_EQ(evaluation_step(k, 512, 64), 8 * k);
}

}  // namespace
}  // namespace flashbert::testing
