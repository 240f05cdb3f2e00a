#include "core/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace flashbert {
namespace {

constexpr std::array<Dtype, 8> kAllDtypes = {Dtype::kF32, Dtype::kBf16, Dtype::kF64, Dtype::kU8,
                                             Dtype::kI32, Dtype::kU32,  Dtype::kI64, Dtype::kU64};

TEST(Dtype, HasTheSizesOfTheTypesItNames) {
  EXPECT_EQ(size_of(kDtypeOf<float>), sizeof(float));
  EXPECT_EQ(size_of(kDtypeOf<bf16>), sizeof(bf16));
  EXPECT_EQ(size_of(kDtypeOf<double>), sizeof(double));
  EXPECT_EQ(size_of(kDtypeOf<std::uint8_t>), sizeof(std::uint8_t));
  EXPECT_EQ(size_of(kDtypeOf<std::int32_t>), sizeof(std::int32_t));
  EXPECT_EQ(size_of(kDtypeOf<std::uint32_t>), sizeof(std::uint32_t));
  EXPECT_EQ(size_of(kDtypeOf<std::int64_t>), sizeof(std::int64_t));
  EXPECT_EQ(size_of(kDtypeOf<std::uint64_t>), sizeof(std::uint64_t));
}

TEST(Dtype, HasDistinctNames) {
  for (const Dtype a : kAllDtypes) {
    for (const Dtype b : kAllDtypes) EXPECT_EQ(name_of(a) == name_of(b), a == b) << name_of(a) << " " << name_of(b);
  }
}

TEST(Dtype, UnitRoundoffIsHalfTheGapAboveOne) {
  EXPECT_EQ(unit_roundoff(Dtype::kF32), std::numeric_limits<float>::epsilon() / 2.0);
  EXPECT_EQ(unit_roundoff(Dtype::kF64), std::numeric_limits<double>::epsilon() / 2.0);
  const float after_one = to_float(bf16{static_cast<std::uint16_t>(to_bf16(1.0F).bits + 1)});
  EXPECT_EQ(unit_roundoff(Dtype::kBf16), (static_cast<double>(after_one) - 1.0) / 2.0);
  EXPECT_EQ(unit_roundoff(Dtype::kI32), 0.0);
}

TEST(Bf16, SurvivesARoundTripForEveryBitPattern) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const bf16 value{static_cast<std::uint16_t>(bits)};
    const bf16 back = to_bf16(to_float(value));
    if (std::isnan(to_float(value))) {
      EXPECT_TRUE(std::isnan(to_float(back))) << bits;
    } else {
      ASSERT_EQ(back, value) << bits;
    }
  }
}

TEST(Bf16, RoundsToNearestForEveryPositiveFinitePair) {
  for (std::uint32_t bits = 0; bits + 1 < 0x7f80U; ++bits) {
    const auto below = static_cast<std::uint16_t>(bits);
    const auto above = static_cast<std::uint16_t>(bits + 1);
    const std::uint32_t base = bits << 16;
    ASSERT_EQ(to_bf16(std::bit_cast<float>(base + 0x7fffU)).bits, below);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(base + 0x8001U)).bits, above);
    // Half way: the even one.
    ASSERT_EQ(to_bf16(std::bit_cast<float>(base + 0x8000U)).bits, bits % 2 == 0 ? below : above);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(0x80000000U | (base + 0x7fffU))).bits, 0x8000U | below);
  }
}

TEST(Bf16, OverflowsToInfinityAndKeepsNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), kInfinity);
  EXPECT_EQ(to_float(to_bf16(-std::numeric_limits<float>::max())), -kInfinity);
  EXPECT_EQ(to_float(to_bf16(kInfinity)), kInfinity);
  // A NaN whose upper 16 bits alone would be an infinity.
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0xffffffffU)))));
}

TEST(Bf16, KeepsSubnormalsAndSignedZero) {
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x00010000U)).bits, 1U);
  EXPECT_EQ(to_bf16(-0.0F).bits, 0x8000U);
}

}  // namespace
}  // namespace flashbert
