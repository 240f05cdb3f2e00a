#include "kernels/formulas.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "op_test.h"
#include "reference/dropout.h"
#include "reference/elementwise.h"

namespace flashbert {
namespace {

// Backends may call these or vector forms of their own; both must agree with the rule of docs/metrics.md.
TEST(Formulas, DropoutDecidesAsTheRuleSays) {
  for (const DropoutSite site :
       {DropoutSite::kEmbeddings, DropoutSite::kAttention, DropoutSite::kAttentionOutput, DropoutSite::kFeedForwardOutput}) {
    const Dropout dropout{.rate = 0.3F, .seed = (std::uint64_t{5} << 32) + 8, .layer = 21, .site = site};
    EXPECT_EQ(dropout.threshold(), 19661U);  // 0.3 x 65,536 = 19,660.8
    EXPECT_TRUE(dropout.active());
    EXPECT_EQ(static_cast<double>(dropout.keep_scale()), reference::kept_factor(dropout));
    const bool attention = site == DropoutSite::kAttention;
    for (const std::uint64_t sample : {std::uint64_t{3}, (std::uint64_t{7} << 32) + 1}) {
      for (int column = 0; column < 200; ++column) {
        const std::uint32_t head = attention ? 11 : 0;
        const int block = attention ? column / 32 * 4 + attention_call(column) : column / 8;
        const auto random = Philox::random(dropout.counter(sample, head, 400, static_cast<std::uint32_t>(block)), dropout.key());
        const bool kept = dropout_word(random, attention ? attention_word(column) : column % 8) >= dropout.threshold();
        const auto at = static_cast<std::size_t>(column);
        EXPECT_EQ(kept, attention ? reference::keeps_attention(dropout, sample, head, 400, at)
                                  : reference::keeps_hidden(dropout, sample, 400, at))
            << sample << " " << column;
      }
    }
  }
  EXPECT_FALSE(Dropout{}.active());
}

TEST(Formulas, ConstantsOfBertAreThoseOfTheReferenceImplementation) {
  EXPECT_EQ(kBertLayerNormEps, 1e-12F);
  EXPECT_EQ(kGeluSqrt2OverPi, 0.7978845608028654F);
  EXPECT_EQ(kGeluCubic, 0.044715F);
}

/// Every finite bf16 value: all magnitudes and signs, and every vector lane.
std::vector<double> finite_bf16_values() {
  std::vector<double> values;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const float value = to_float(bf16{static_cast<std::uint16_t>(bits)});
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

TEST(Formulas, GeluAndItsSlopeAreWithinTheRoundingsOfTheirArithmetic) {
  std::vector<double> y;
  std::vector<double> slope;
  std::vector<testing::Estimate> want_y;
  std::vector<testing::Estimate> want_slope;
  for (const double x : finite_bf16_values()) {
    y.push_back(gelu(static_cast<float>(x)));
    slope.push_back(gelu_slope(static_cast<float>(x)));
    want_y.push_back(testing::stored(reference::gelu(testing::Estimate(x)), Dtype::kF32));
    want_slope.push_back(testing::stored(reference::gelu_slope(testing::Estimate(x)), Dtype::kF32));
  }
  testing::expect_close(y, want_y, "gelu");
  testing::expect_close(slope, want_slope, "slope");
}

TEST(Formulas, GeluOfInfinitiesAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gelu(kInfinity), kInfinity);
  EXPECT_EQ(gelu(-kInfinity), 0.0F);
  EXPECT_EQ(gelu_slope(kInfinity), 1.0F);
  EXPECT_EQ(gelu_slope(-kInfinity), 0.0F);
  EXPECT_TRUE(std::isnan(gelu(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(gelu_slope(std::numeric_limits<float>::quiet_NaN())));
}

class FormulasOfBackends : public testing::OpTest {};

TEST_P(FormulasOfBackends, GeluAndItsSlopeAgreeWithTheScalarOnes) {
  // Both are within the roundings of their arithmetic, so that they differ by no more than twice these.
  const std::vector<double> x = finite_bf16_values();
  const Shape shape{testing::as_extent(x.size())};
  const testing::DeviceTensor x_device = typed(shape, x);
  const testing::DeviceTensor ones = typed(shape, std::vector<double>(x.size(), 1.0));
  const testing::DeviceTensor y = empty(dtype(), shape);
  const testing::DeviceTensor dx = empty(dtype(), shape);
  ops().gelu_forward({.y = y, .x = x_device});
  ops().gelu_backward({.dx = dx, .dy = ones, .x = x_device});
  std::vector<testing::Estimate> want_y;
  std::vector<testing::Estimate> want_dx;
  const auto around = [&](float scalar, const testing::Estimate& bound) {
    return testing::stored(testing::Estimate(scalar, 2.0 * bound.error), dtype());
  };
  for (const double value : x) {
    const auto scalar = static_cast<float>(value);
    want_y.push_back(around(gelu(scalar), testing::stored(reference::gelu(testing::Estimate(value)), Dtype::kF32)));
    want_dx.push_back(around(gelu_slope(scalar), testing::stored(reference::gelu_slope(testing::Estimate(value)), Dtype::kF32)));
  }
  testing::expect_close(y.values(), want_y, "gelu");
  testing::expect_close(dx.values(), want_dx, "slope");
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(FormulasOfBackends);

}  // namespace
}  // namespace flashbert
