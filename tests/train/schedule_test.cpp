#include "train/schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

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

TEST(Schedule, MatchesTheGoldenTablesOfAllReferenceBatchSizes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  std::ifstream file(shared / "golden/ops/ops.json");
  const auto tables = nlohmann::json::parse(file)["learning_rate"];
  ASSERT_FALSE(tables.empty());
  for (const auto& table : tables) {
    const OptimizerSettings settings = {.lr = table["base"].get<double>(),
                                        .lr_total_steps = table["train_steps"].get<std::int64_t>(),
                                        .warmup_steps = table["warmup_steps"].get<std::int64_t>(),
                                        .start_warmup_step = table["start_warmup_step"].get<std::int64_t>(),
                                        .lr_power = table["poly_power"].get<double>()};
    for (std::size_t i = 0; i < table["steps"].size(); ++i) {
      const double want = table["learning_rate"][i].get<double>();
      EXPECT_NEAR(learning_rate(settings, table["steps"][i].get<std::int64_t>()), want, 1e-7 * std::abs(want) + 1e-18) << table.dump();
    }
  }
}

}  // namespace
}  // namespace flashbert::testing
