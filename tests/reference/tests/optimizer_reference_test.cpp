#include <gtest/gtest.h>

#include <vector>

#include "reference/optimizer.h"
#include "support/compare.h"

namespace flashbert::reference {
namespace {

LambRates<double> worked_rates() {
  return {.learning_rate = 0.1,
          .bias_correction1 = 0.1,
          .bias_correction2 = 0.001,
          .clip_scale = 0.2,
          .beta1 = 0.9,
          .beta2 = 0.999,
          .epsilon = 1e-6,
          .weight_decay = 0.01,
          .decay = true};
}

// A case worked out by hand: weights and gradient (3, 4), so the norm 5 is clipped to 1.
TEST(LambReference, GivesTheNumbersOfAWorkedExample) {
  const LambResult<double> result = lamb_update(worked_rates(), {{3.0, 4.0}, {0.0, 0.0}, {0.0, 0.0}}, {3.0, 4.0});
  testing::expect_close(result.state.m, {0.06, 0.08}, {.relative = 1e-14});
  testing::expect_close({result.trust_ratio}, {3.41594}, {.absolute = 0.5e-5});
  testing::expect_close(result.state.weight, {2.648159, 3.644743}, {.absolute = 0.5e-6});
}

TEST(LambReference, LeavesTheExcludedGroupWithoutDecayAndRatio) {
  LambRates<double> rates = worked_rates();
  rates.decay = false;
  const LambResult<double> result = lamb_update(rates, {{3.0, 4.0}, {0.0, 0.0}, {0.0, 0.0}}, {3.0, 4.0});
  EXPECT_EQ(result.trust_ratio, 1.0);
  // eps = 1e-6 beside a root of 0.6 takes 2e-7 off the step of 0.1.
  testing::expect_close(result.state.weight, {2.9, 3.9}, {.absolute = 2e-7});
}

TEST(LambReference, UsesARatioOfOneWhenANormIsZero) {
  const LambResult<double> zero_weights = lamb_update(worked_rates(), {{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}, {3.0, 4.0});
  EXPECT_EQ(zero_weights.trust_ratio, 1.0);
  const LambResult<double> nothing = lamb_update(worked_rates(), {{0.0}, {0.0}, {0.0}}, {0.0});
  EXPECT_EQ(nothing.trust_ratio, 1.0);
  EXPECT_EQ(nothing.state.weight[0], 0.0);
}

TEST(LambReference, CountsZeroOverZeroAsNoMove) {
  LambRates<double> rates = worked_rates();
  rates.epsilon = 0.0;
  rates.weight_decay = 0.0;
  EXPECT_EQ(lamb_update(rates, {{2.0}, {0.0}, {0.0}}, {0.0}).state.weight[0], 2.0);
}

TEST(GlobalNormReference, IsTheEuclideanLength) {
  EXPECT_EQ(global_norm({{3.0}, {}, {0.0, 4.0}}), 5.0);
  EXPECT_EQ(global_norm({}), 0.0);
}

}  // namespace
}  // namespace flashbert::reference
