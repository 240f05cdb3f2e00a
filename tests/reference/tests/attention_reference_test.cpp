#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "finite_difference.h"
#include "reference/attention.h"
#include "support/random_values.h"

namespace flashbert::reference {
namespace {

using testing::RandomValues;
using Values = std::vector<double>;

/// Three sequences: the second without keys, the third with fewer queries than keys; a tail of one row each.
AttentionBatch small_batch() {
  return {.heads = 2,
          .head_dim = 4,
          .query_rows = 6,
          .key_rows = 8,
          .cu_queries = {0, 2, 3, 5},
          .cu_keys = {0, 2, 2, 7},
          .query_position = {0, 1, 0, 3, 4, 0},
          .sample_index = {7, 8, 9},
          .scale = 0.5,
          .dropout = {}};
}

void expect_gradients(const AttentionBatch& batch) {
  RandomValues random(41);
  const auto query_elements = static_cast<std::int64_t>(batch.query_rows * batch.heads * batch.head_dim);
  const auto key_elements = static_cast<std::int64_t>(batch.key_rows * batch.heads * batch.head_dim);
  const AttentionTensors<double> in{random.values(query_elements, Dtype::kF64), random.values(key_elements, Dtype::kF64),
                                    random.values(key_elements, Dtype::kF64)};
  const Values dout = random.values(query_elements, Dtype::kF64);
  const AttentionResult<double> forward = attention_forward(batch, in);
  const AttentionGradients<double> gradients = attention_backward(batch, in, forward, dout);
  expect_gradient(
      [&](const Values& v) {
        return weighted(attention_forward<double>(batch, {v, in.key, in.value}).out, dout);
      },
      in.query, gradients.dquery, "dquery");
  expect_gradient(
      [&](const Values& v) {
        return weighted(attention_forward<double>(batch, {in.query, v, in.value}).out, dout);
      },
      in.key, gradients.dkey, "dkey");
  expect_gradient(
      [&](const Values& v) {
        return weighted(attention_forward<double>(batch, {in.query, in.key, v}).out, dout);
      },
      in.value, gradients.dvalue, "dvalue");
}

TEST(AttentionReference, GradientsMatchFiniteDifferences) { expect_gradients(small_batch()); }

TEST(AttentionReference, GradientsMatchFiniteDifferencesUnderDropout) {
  AttentionBatch batch = small_batch();
  batch.dropout = {.rate = 0.3F, .seed = 5, .layer = 1, .site = DropoutSite::kAttention};
  expect_gradients(batch);
}

TEST(AttentionReference, RowsWithoutKeysGiveZeroAndAnInfiniteLogSum) {
  const AttentionBatch batch = small_batch();
  const AttentionTensors<double> in{Values(48, 1.0), Values(64, 1.0), Values(64, 1.0)};
  const AttentionResult<double> result = attention_forward(batch, in);
  EXPECT_EQ(result.lse[batch.lse_at(2, 0)], std::numeric_limits<double>::infinity());
  EXPECT_EQ(result.out[batch.at(2, 0)], 0.0);
  // Equal keys: the mean of equal values, and log of the number of keys beside the score.
  EXPECT_NEAR(result.out[batch.at(3, 1)], 1.0, 1e-15);
  EXPECT_NEAR(result.lse[batch.lse_at(3, 0)], 0.5 * 4.0 + std::log(5.0), 1e-15 * 8.0);
}

TEST(DropoutReference, KeepsTheFractionThatTheThresholdSays) {
  const Dropout dropout{.rate = 0.1F, .seed = 77, .layer = 3, .site = DropoutSite::kAttentionOutput};
  RowOrigins origins;
  for (int row = 0; row < 256; ++row) {
    origins.sequence.push_back(row / 64);
    origins.position.push_back(row % 64);
  }
  origins.sample_index = {1, 2, 3, 1ULL << 40};
  constexpr std::size_t kHidden = 512;
  double kept = 0.0;
  for (const double factor : hidden_mask(dropout, origins, kHidden)) kept += factor > 0.0 ? 1.0 : 0.0;
  const double count = 256.0 * kHidden;
  const double keep_rate = 1.0 - 6554.0 / 65536.0;
  // Binomial: six standard deviations.
  EXPECT_NEAR(kept / count, keep_rate, 6.0 * std::sqrt(keep_rate * (1.0 - keep_rate) / count));
}

TEST(DropoutReference, DiffersBetweenRowsLayersSitesSamplesAndSeeds) {
  const Dropout base{.rate = 0.5F, .seed = 1, .layer = 1, .site = DropoutSite::kAttentionOutput};
  const auto mask = [](const Dropout& dropout, std::uint64_t sample, std::int32_t position) {
    return hidden_mask(dropout, {{0}, {position}, {sample}}, 64);
  };
  const Values first = mask(base, 3, 4);
  Dropout other = base;
  other.seed = 1ULL << 32 | 1ULL;
  EXPECT_NE(mask(other, 3, 4), first);
  other = base;
  other.layer = 2;
  EXPECT_NE(mask(other, 3, 4), first);
  other = base;
  other.site = DropoutSite::kFeedForwardOutput;
  EXPECT_NE(mask(other, 3, 4), first);
  EXPECT_NE(mask(base, 1ULL << 32 | 3ULL, 4), first);
  EXPECT_NE(mask(base, 3, 5), first);
  EXPECT_EQ(mask(base, 3, 4), first);
}

}  // namespace
}  // namespace flashbert::reference
