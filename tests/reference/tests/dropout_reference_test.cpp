#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "reference/dropout.h"

namespace flashbert::reference {
namespace {

// Known answers of philox4x32 with 10 rounds, Random123's kat_vectors.
TEST(PhiloxReference, GivesTheKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// tests/golden/make_dropout_masks.py computed them in Python.
TEST(DropoutReference, GivesTheGoldenMasks) {
  std::ifstream file(FLASHBERT_SOURCE_DIR "/tests/golden/dropout_masks.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 28U);
  for (const auto& c : cases) {
    const auto site = c["site"].get<int>();
    const Dropout dropout{.rate = c["rate"].get<float>(),
                          .seed = c["seed"].get<std::uint64_t>(),
                          .layer = c["layer"].get<std::uint32_t>(),
                          .site = site == 0   ? DropoutSite::kEmbeddings
                                  : site == 1 ? DropoutSite::kAttention
                                  : site == 2 ? DropoutSite::kAttentionOutput
                                              : DropoutSite::kFeedForwardOutput};
    std::string kept;
    for (std::size_t column = 0; column < c["columns"].get<std::size_t>(); ++column) {
      const auto sample = c["sample"].get<std::uint64_t>();
      const auto position = c["position"].get<std::int32_t>();
      const bool keep = site == 1 ? keeps_attention(dropout, sample, c["head"].get<std::size_t>(), position, column)
                                  : keeps_hidden(dropout, sample, position, column);
      kept += keep ? '1' : '0';
    }
    EXPECT_EQ(kept, c["kept"]) << c.dump();
  }
}

TEST(DropoutReference, ScalesByTheTrueFractionThatIsKept) {
  // 6,554 of 65,536 words drop at rate 0.1, half of them at 0.5.
  EXPECT_EQ(kept_factor({.rate = 0.1F}), static_cast<double>(static_cast<float>(65536.0 / 58982.0)));
  EXPECT_EQ(kept_factor({.rate = 0.5F}), 2.0);
  EXPECT_EQ(drop_below({.rate = 0.0F}), 0U);
}

}  // namespace
}  // namespace flashbert::reference
