#include "core/philox.h"

#include <gtest/gtest.h>

namespace flashbert {
namespace {

// Known answers of philox4x32 with 10 rounds, Random123's kat_vectors.
TEST(Philox, GivesTheKnownAnswerForZeros) {
  const Philox::Counter want = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(Philox::random({0, 0, 0, 0}, {0, 0}), want);
}

TEST(Philox, GivesTheKnownAnswerForOnes) {
  constexpr std::uint32_t kOnes = 0xffffffff;
  const Philox::Counter want = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(Philox::random({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}), want);
}

TEST(Philox, GivesTheKnownAnswerForDigitsOfPi) {
  const Philox::Counter want = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  EXPECT_EQ(Philox::random({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}), want);
}

TEST(Philox, CanBeEvaluatedByTheCompiler) { static_assert(Philox::random({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5); }

}  // namespace
}  // namespace flashbert
