// Statistics of the masks that the kernels leave, and the golden masks: neither needs the rule that the kernels follow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "attention_support.h"
#include "op_test.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;
using testing::SampleIndices;
/// One decision after the other: true where it keeps.
using Mask = std::vector<bool>;

constexpr std::int64_t kHidden = 1024;
constexpr std::size_t kRows = 64;
constexpr std::size_t kHeads = 4;
constexpr std::int32_t kKeys = 96;
constexpr std::uint64_t kSample = (std::uint64_t{3} << 32) + 41;
constexpr Dropout kHiddenDropout{.rate = 0.25F, .seed = (std::uint64_t{9} << 32) + 77, .layer = 3, .site = DropoutSite::kAttentionOutput};
constexpr Dropout kAttentionDropout{.rate = 0.25F, .seed = kHiddenDropout.seed, .layer = 3, .site = DropoutSite::kAttention};

/// Binomial: six standard deviations, passed once in 5e8 checks by chance.
void expect_share(double hits, double trials, double probability, const std::string& what) {
  EXPECT_LE(std::abs(hits - trials * probability), 6.0 * std::sqrt(trials * probability * (1.0 - probability)))
      << what << ": " << hits << " of " << trials << ", probability " << probability;
}

double kept(const Mask& mask) { return static_cast<double>(std::count(mask.begin(), mask.end(), true)); }

/// Independent decisions agree where both keep or both drop.
void expect_independent(const Mask& a, const Mask& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  double equal = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? 1.0 : 0.0;
  expect_share(equal, static_cast<double>(a.size()), 0.75 * 0.75 + 0.25 * 0.25, what);
}

class DropoutMasks : public testing::OpTest {
 protected:
  /// Rows of one sample at these positions, by the op that the site belongs to.
  [[nodiscard]] Mask hidden(const Dropout& dropout, std::uint64_t sample, const std::vector<std::int32_t>& positions,
                            std::int64_t columns = kHidden) const {
    const auto rows = testing::as_extent(positions.size());
    const DeviceTensor keep = empty(Dtype::kU32, {rows, keep_words(columns)});
    const DeviceTensor y = empty(dtype(), {rows, columns});
    const DeviceTensor z = empty(dtype(), {rows, columns});
    const DeviceTensor mean = empty(Dtype::kF32, {rows});
    const DeviceTensor rstd = empty(Dtype::kF32, {rows});
    const DeviceTensor x = typed({rows, columns}, std::vector<double>(static_cast<std::size_t>(rows * columns), 0.5));
    const DeviceTensor gamma = f32({columns}, std::vector<double>(static_cast<std::size_t>(columns), 1.0));
    const DeviceTensor sequence = i32(std::vector<std::int32_t>(positions.size(), 0));
    const DeviceTensor position = i32(positions);
    const SampleIndices samples(device(), {sample});
    const RowOrigin origin{sequence, position, samples};
    if (dropout.site == DropoutSite::kEmbeddings) {
      ops().embeddings_forward({.y = y,
                                .z = z,
                                .mean = mean,
                                .rstd = rstd,
                                .keep_bits = keep,
                                .token_ids = sequence,
                                .position_ids = sequence,
                                .segment_ids = sequence,
                                .word = x,
                                .position = x,
                                .segment = x,
                                .gamma = gamma,
                                .beta = gamma,
                                .origin = origin,
                                .dropout = dropout});
    } else {
      ops().dropout_add_layer_norm_forward({.y = y,
                                            .z = z,
                                            .mean = mean,
                                            .rstd = rstd,
                                            .keep_bits = keep,
                                            .x = x,
                                            .residual = {},
                                            .gamma = gamma,
                                            .beta = gamma,
                                            .origin = origin,
                                            .dropout = dropout});
    }
    return decisions(keep.values(), positions.size(), columns, keep_words(columns));
  }
  /// One sequence of `keys` keys and these query positions; (row, head, key).
  [[nodiscard]] Mask attention(const Dropout& dropout, std::uint64_t sample, const std::vector<std::int32_t>& positions,
                               std::int32_t keys = kKeys) const {
    testing::AttentionCase c({.lengths = {{static_cast<std::int32_t>(positions.size())}, {keys}},
                              .heads = kHeads,
                              .head_dim = 16,
                              .dropout = dropout,
                              .tail = 0},
                             dtype(), 901);
    c.batch.sample_index = {sample};
    c.batch.query_position = positions;
    const testing::AttentionRun run(device(), dtype(), c);
    run.forward();
    return decisions(run.keep.values(), positions.size() * kHeads, keys, c.words());
  }
  [[nodiscard]] Mask of_site(const Dropout& dropout, std::uint64_t sample, const std::vector<std::int32_t>& positions) const {
    return dropout.site == DropoutSite::kAttention ? attention(dropout, sample, positions) : hidden(dropout, sample, positions);
  }

 private:
  static Mask decisions(const std::vector<double>& words, std::size_t rows, std::int64_t columns, std::int64_t row_words) {
    Mask mask;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const double word = words[row * static_cast<std::size_t>(row_words) + static_cast<std::size_t>(c / 32)];
        mask.push_back((static_cast<std::uint32_t>(word) >> (c % 32) & 1U) != 0);
      }
    }
    return mask;
  }
};

std::vector<std::int32_t> positions_from(std::int32_t first, std::int32_t step) {
  std::vector<std::int32_t> positions;
  for (std::size_t i = 0; i < kRows; ++i) positions.push_back(first + step * static_cast<std::int32_t>(i));
  return positions;
}

TEST_P(DropoutMasks, KeepTheShareThatTheRateLeaves) {
  // Rates whose 65536ths are whole, so that the probability is exact.
  for (const double rate : {0x1p-4, 0.25, 0.5, 0.75}) {
    for (Dropout dropout : {kHiddenDropout, kAttentionDropout}) {
      dropout.rate = static_cast<float>(rate);
      const Mask mask = of_site(dropout, kSample, positions_from(0, 1));
      expect_share(kept(mask), static_cast<double>(mask.size()), 1.0 - rate, fmt::format("rate {}", rate));
    }
  }
}

TEST_P(DropoutMasks, AreIndependentBetweenLayersSeedsSamplesAndPositions) {
  for (const Dropout& dropout : {kHiddenDropout, kAttentionDropout}) {
    const auto even = positions_from(0, 2);
    const Mask mask = of_site(dropout, kSample, even);
    const auto with = [&](auto change) {
      Dropout other = dropout;
      change(other);
      return of_site(other, kSample, even);
    };
    expect_independent(mask, with([](Dropout& d) { d.layer = 4; }), "next layer");
    expect_independent(mask, with([](Dropout& d) { d.layer = 2; }), "layer before");
    expect_independent(mask, with([](Dropout& d) { d.layer = 0; }), "first layer");
    expect_independent(mask, with([](Dropout& d) { d.seed += 1; }), "next seed");
    expect_independent(mask, with([](Dropout& d) { d.seed ^= std::uint64_t{1} << 32; }), "high half of the seed");
    expect_independent(mask, of_site(dropout, kSample + 1, even), "next sample");
    expect_independent(mask, of_site(dropout, kSample ^ (std::uint64_t{1} << 32), even), "high half of the sample");
    expect_independent(mask, of_site(dropout, kSample, positions_from(1, 2)), "next position");
    expect_independent(mask, of_site(dropout, kSample, positions_from(256, 2)), "positions 256 above");
  }
}

TEST_P(DropoutMasks, AreIndependentBetweenSites) {
  std::vector<Mask> masks;
  for (const DropoutSite site : {DropoutSite::kEmbeddings, DropoutSite::kAttentionOutput, DropoutSite::kFeedForwardOutput}) {
    Dropout dropout = kHiddenDropout;
    dropout.site = site;
    masks.push_back(hidden(dropout, kSample, positions_from(0, 1)));
  }
  expect_independent(masks[0], masks[1], "embeddings, attention output");
  expect_independent(masks[0], masks[2], "embeddings, feed-forward output");
  expect_independent(masks[1], masks[2], "attention output, feed-forward output");
}

TEST_P(DropoutMasks, AreIndependentBetweenHeads) {
  const Mask mask = attention(kAttentionDropout, kSample, positions_from(0, 1));
  const auto head = [&](std::size_t wanted) {
    Mask result;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (i / kKeys % kHeads == wanted) result.push_back(mask[i]);
    }
    return result;
  };
  for (std::size_t a = 0; a < kHeads; ++a) {
    for (std::size_t b = 0; b < a; ++b) expect_independent(head(a), head(b), fmt::format("heads {} and {}", a, b));
  }
}

TEST_P(DropoutMasks, AreIndependentBetweenColumns) {
  for (const Dropout& dropout : {kHiddenDropout, kAttentionDropout}) {
    const Mask mask = of_site(dropout, kSample, positions_from(0, 1));
    // Pairs of columns that share a word, a call, a vector or only the row; each decision is in one pair, so pairs are independent.
    for (const std::size_t distance : {1U, 2U, 4U, 8U, 16U, 32U}) {
      Mask lower;
      Mask upper;
      const std::size_t columns = dropout.site == DropoutSite::kAttention ? kKeys : kHidden;
      for (std::size_t row = 0; row < mask.size(); row += columns) {
        for (std::size_t c = 0; c + distance < columns; ++c) {
          if (c / distance % 2 != 0) continue;
          lower.push_back(mask[row + c]);
          upper.push_back(mask[row + c + distance]);
        }
      }
      expect_independent(lower, upper, fmt::format("columns {} apart", distance));
    }
  }
}

// tests/golden/make_dropout_masks.py computed them in Python.
TEST_P(DropoutMasks, AreTheGoldenOnes) {
  std::ifstream file(FLASHBERT_SOURCE_DIR "/tests/golden/dropout_masks.json");
  const auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 28U);
  for (const auto& c : cases) {
    const Dropout dropout{.rate = c["rate"].get<float>(),
                          .seed = c["seed"].get<std::uint64_t>(),
                          .layer = c["layer"].get<std::uint32_t>(),
                          .site = static_cast<DropoutSite>(c["site"].get<std::uint32_t>())};
    const auto sample = c["sample"].get<std::uint64_t>();
    const std::vector<std::int32_t> position = {c["position"].get<std::int32_t>()};
    const auto columns = c["columns"].get<std::int32_t>();
    const bool in_attention = c["site"] == 1;
    const Mask mask = in_attention ? attention(dropout, sample, position, columns) : hidden(dropout, sample, position, columns);
    const std::size_t first = in_attention ? c["head"].get<std::size_t>() * static_cast<std::size_t>(columns) : 0;
    std::string got;
    for (std::size_t i = 0; i < static_cast<std::size_t>(columns); ++i) got += mask[first + i] ? '1' : '0';
    EXPECT_EQ(got, c["kept"]) << c.dump();
  }
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(DropoutMasks);

}  // namespace
}  // namespace flashbert
