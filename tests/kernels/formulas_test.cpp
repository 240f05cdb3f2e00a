#include "kernels/formulas.h"

#include <gtest/gtest.h>

#include "reference/dropout.h"

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

}  // namespace
}  // namespace flashbert
