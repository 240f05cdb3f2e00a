#include "support/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/random_values.h"

namespace flashbert::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string message(const ::testing::AssertionResult& result) { return result.message(); }

TEST(Compare, AcceptsErrorsUpToTheLimit) {
  EXPECT_TRUE(close({1.5, -2.5}, {1.0, -2.0}, {.absolute = 0.5}));
  EXPECT_TRUE(close({101.0, -99.0}, {100.0, -100.0}, {.relative = 0.01}));
  EXPECT_TRUE(close({}, {}, Tolerance{}));
}

TEST(Compare, FindsAPlantedErrorOfEachSign) {
  const std::vector<double> want(100, 1.0);
  for (const double planted : {0.51, -0.51}) {
    std::vector<double> got = want;
    got[37] += planted;
    const ::testing::AssertionResult result = close(got, want, {.absolute = 0.5});
    EXPECT_FALSE(result);
    EXPECT_NE(message(result).find("element 37"), std::string::npos) << message(result);
    EXPECT_NE(message(result).find("1 of 100"), std::string::npos) << message(result);
  }
}

TEST(Compare, NamesTheElementFarthestOutside) {
  const ::testing::AssertionResult result = close({0.0, 2.0, 9.0, 3.0}, {0.0, 0.0, 0.0, 0.0}, {.absolute = 1.0});
  EXPECT_NE(message(result).find("3 of 4"), std::string::npos);
  EXPECT_NE(message(result).find("element 2: got 9, want 0"), std::string::npos) << message(result);
}

TEST(Compare, RefusesNanOnEitherSide) {
  EXPECT_FALSE(close({kNan}, {0.0}, {.absolute = kInfinity}));
  EXPECT_FALSE(close({0.0}, {kNan}, {.absolute = kInfinity}));
  EXPECT_FALSE(close({kNan}, {kNan}, {.absolute = kInfinity}));
  EXPECT_FALSE(close({0.0}, {1.0}, {.absolute = kNan}));
}

TEST(Compare, TakesInfinityOnlyForTheSameInfinity) {
  EXPECT_TRUE(close({kInfinity}, {kInfinity}, Tolerance{}));
  EXPECT_FALSE(close({kInfinity}, {-kInfinity}, {.absolute = 1.0}));
  EXPECT_FALSE(close({kInfinity}, {1.0}, {.absolute = 1.0}));
  EXPECT_FALSE(close({1.0}, {kInfinity}, {.relative = 1.0}));
}

TEST(Compare, RefusesAnotherShape) {
  EXPECT_FALSE(close({1.0}, {1.0, 1.0}, {.absolute = 9.0}));
  EXPECT_FALSE(close({1.0, 1.0}, {1.0}, {.absolute = 9.0}));
  EXPECT_FALSE(close({}, std::vector<Estimate>{1.0}));
}

TEST(Compare, UsesEachElementsOwnBound) {
  EXPECT_TRUE(close({1.1, 5.0}, std::vector<Estimate>{{1.0, 0.2}, {5.0, 0.0}}));
  EXPECT_FALSE(close({1.1, 5.1}, std::vector<Estimate>{{1.0, 0.2}, {5.0, 0.0}}));
}

TEST(Compare, MeasuresErrors) {
  EXPECT_EQ(largest_error({1.0, 2.0}, {1.5, 0.0}), 2.0);
  EXPECT_EQ(total_error({3.0, 0.0}, {0.0, 4.0}), 5.0);
  EXPECT_EQ(largest_error({kNan}, {0.0}), kInfinity);
  EXPECT_EQ(total_error({kNan}, {0.0}), kInfinity);
  EXPECT_EQ(largest_error({1.0}, {}), kInfinity);
}

TEST(Tolerance, OfASumCoversF32SumsInAnyOrderAndCatchesAMissingTerm) {
  RandomValues random(11);
  constexpr std::int64_t kTerms = 4000;
  const std::vector<double> terms = random.values(kTerms, Dtype::kF32);
  double exact_sum = 0.0;
  double magnitude = 0.0;
  float forward = 0.0F;
  float backward = 0.0F;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    exact_sum += terms[i];
    magnitude += std::abs(terms[i]);
    forward += static_cast<float>(terms[i]);
    backward += static_cast<float>(terms[terms.size() - 1 - i]);
  }
  const Tolerance tolerance = sum_tolerance({.unit = kF32Unit, .terms = kTerms, .magnitude = magnitude});
  expect_close({static_cast<double>(forward), static_cast<double>(backward)}, {exact_sum, exact_sum}, tolerance);
  const double largest = 1.0;
  EXPECT_FALSE(close({exact_sum - largest}, {exact_sum}, tolerance));
}

}  // namespace
}  // namespace flashbert::testing
