#include "support/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/random_values.h"

namespace flashbert::testing {
namespace {

/// The same expression computed in f32 must lie within the estimate.
void expect_covers(const Estimate& estimate, float computed) {
  EXPECT_LE(std::abs(static_cast<double>(computed) - estimate.value), estimate.error);
}

TEST(Estimate, CoversF32Arithmetic) {
  RandomValues random(21);
  for (int trial = 0; trial < 1000; ++trial) {
    const std::vector<double> x = random.values(3, Dtype::kF32, 3.0);
    const auto a = static_cast<float>(x[0]);
    const auto b = static_cast<float>(x[1]);
    const auto c = static_cast<float>(x[2]) + 4.0F;
    const Estimate ea = x[0];
    const Estimate eb = x[1];
    const Estimate ec = static_cast<double>(c);
    expect_covers((ea * eb - ea) / ec, (a * b - a) / c);
    expect_covers(square_root(ea * ea + ec), std::sqrt(a * a + c));
    expect_covers(exponential(ea - eb), std::exp(a - b));
    expect_covers(logarithm(ec + eb * eb), std::log(c + b * b));
    expect_covers(hyperbolic_tangent(ea + eb), std::tanh(a + b));
    expect_covers(sigmoid(ea * eb), 1.0F / (1.0F + std::exp(-(a * b))));
  }
}

TEST(Estimate, StaysCloseToWhatOneRoundingCosts) {
  // Guards against bounds so wide that nothing could fail.
  const Estimate sum = Estimate(1.0) + Estimate(2.0);
  EXPECT_EQ(sum.error, 3.0 * kF32Unit);
  EXPECT_LE((Estimate(3.0) * Estimate(5.0)).error, 16.0 * kF32Unit);
  EXPECT_LE(exponential(Estimate(-1.0)).error, 0.4 * kFunctionUnits * kF32Unit);
  EXPECT_LE(stored(Estimate(2.0), Dtype::kBf16).error, 2.0 * 0x1p-8 + kSmallestNormal);
}

TEST(Estimate, GrowsWithTheErrorsOfItsArguments) {
  const Estimate x(1.0, 0.01);
  EXPECT_GE((x + x).error, 0.02);
  EXPECT_GE((x - x).error, 0.02);
  EXPECT_GE((x * x).error, 0.02);
  EXPECT_GE((Estimate(1.0) / x).error, 0.01);
  EXPECT_GE(exponential(x).error, std::exp(1.01) - std::exp(1.0));
  EXPECT_GE(logarithm(x).error, -std::log(0.99));
  EXPECT_GE(square_root(x).error, 1.0 - std::sqrt(0.99));
  EXPECT_TRUE(std::isinf((x / Estimate(0.0, 0.01)).error));
}

TEST(Estimate, SumsFollowTheRuleOfSums) {
  Sum<Estimate> sum;
  for (int i = 0; i < 100; ++i) sum.add(i % 2 == 0 ? 1.0 : -1.0);
  EXPECT_EQ(sum.total().value, 0.0);
  EXPECT_EQ(sum.total().error, sum_tolerance({.unit = kF32Unit, .terms = 100, .magnitude = 100.0}).absolute);
}

}  // namespace
}  // namespace flashbert::testing
