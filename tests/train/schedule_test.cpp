#include "train/schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/golden_ops.h"
#include "support/shared_data.h"

namespace flashbert::testing {
namespace {

std::vector<double> rates(const OptimizerSettings& settings, int steps) {
  std::vector<double> values;
  for (int s = 0; s < steps; ++s) values.push_back(learning_rate(settings, s));
  return values;
}

TEST(Schedule, FollowsTheReferenceAtTheSeamOfWarmUpAndDecay) {
  const auto plain = rates({.lr = 1.0, .lr_total_steps = 10, .warmup_steps = 4}, 10);
  const std::vector<double> want = {0, .25, .5, .75, .6, .5, .4, .3, .2, .1};
  const auto shifted = rates({.lr = 1.0, .lr_total_steps = 10, .warmup_steps = 4, .start_warmup_step = -2}, 10);
  const std::vector<double> want_shifted = {.5, .75, .8, .7, .6, .5, .4, .3, .2, .1};
  for (std::size_t s = 0; s < want.size(); ++s) {
    EXPECT_DOUBLE_EQ(plain[s], want[s]) << s;
    EXPECT_DOUBLE_EQ(shifted[s], want_shifted[s]) << s;
  }
}

TEST(Schedule, StaysAtZeroAfterItsLastStep) {
  for (const double power : {0.5, 1.0, 2.0}) {
    for (const int step : {4, 5, 100}) EXPECT_EQ(learning_rate({.lr = 1.0, .lr_total_steps = 4, .lr_power = power}, step), 0.0) << step;
  }
}

TEST(Schedule, AWarmUpWithoutStepsIgnoresWhereItStarts) {
  for (const std::int64_t start : {-3, 0, 3}) {
    EXPECT_EQ(rates({.lr = 1.0, .lr_total_steps = 4, .warmup_steps = 0, .start_warmup_step = start}, 5),
              (std::vector<double>{1.0, 0.75, 0.5, 0.25, 0.0}));
  }
}

TEST(Schedule, ThePowerBendsTheDecayAndNotTheWarmUp) {
  const auto got = rates({.lr = 0.5, .lr_total_steps = 8, .warmup_steps = 2, .lr_power = 2.0}, 8);
  const std::vector<double> want = {0.0, 0.25, 18.0 / 64, 12.5 / 64, 8.0 / 64, 4.5 / 64, 2.0 / 64, 0.5 / 64};
  for (std::size_t s = 0; s < want.size(); ++s) EXPECT_DOUBLE_EQ(got[s], want[s]) << s;
}

/// A hundred roundings of a double: rates are a few operations, and a power.
void expect_rates(const nlohmann::json& tables) {
  ASSERT_FALSE(tables.empty());
  for (const auto& table : tables) {
    const OptimizerSettings settings = {.lr = table["base"].get<double>(),
                                        .lr_total_steps = table["train_steps"].get<std::int64_t>(),
                                        .warmup_steps = table["warmup_steps"].get<std::int64_t>(),
                                        .start_warmup_step = table["start_warmup_step"].get<std::int64_t>(),
                                        .lr_power = table["poly_power"].get<double>()};
    for (std::size_t i = 0; i < table["steps"].size(); ++i) {
      const double want = table["learning_rate"][i].get<double>();
      // 1 - s / N is off by a rounding of 1, which is more where little is left.
      const double tolerance = 100.0 * 0x1p-53 * (std::abs(want) + settings.lr * std::max(1.0, settings.lr_power));
      EXPECT_NEAR(learning_rate(settings, table["steps"][i].get<std::int64_t>()), want, tolerance) << table["steps"][i] << " of " << table;
    }
  }
}

TEST(Schedule, MatchesTheTablesOfTheRepository) { expect_rates(GoldenOps(repository_goldens() / "ops").learning_rates()); }

TEST(Schedule, MatchesTheGoldenTablesOfAllReferenceBatchSizes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  expect_rates(GoldenOps(shared / "golden/ops").learning_rates());
}

}  // namespace
}  // namespace flashbert::testing
