#include "data/packed_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data_support.h"

namespace flashbert {
namespace {

using Ints = std::vector<std::int32_t>;

PackedBatch pack(const SampleStore& samples) {
  PackedBatch batch;
  batch.clear();
  for (std::int64_t row = 0; row < samples.size(); ++row) batch.append(samples[row], static_cast<std::uint64_t>(100 + row));
  batch.finish();
  return batch;
}

void expect_runs(const SortedRuns& runs, const Ints& keys) {
  ASSERT_EQ(runs.order.size(), keys.size());
  ASSERT_EQ(runs.starts.size(), runs.ids.size() + 1);
  EXPECT_EQ(runs.starts.front(), 0);
  EXPECT_EQ(static_cast<std::size_t>(runs.starts.back()), keys.size());
  EXPECT_TRUE(std::is_sorted(runs.ids.begin(), runs.ids.end()));
  EXPECT_EQ(std::set<std::int32_t>(runs.ids.begin(), runs.ids.end()).size(), runs.ids.size());
  for (std::size_t run = 0; run < runs.ids.size(); ++run) {
    ASSERT_LT(runs.starts[run], runs.starts[run + 1]) << "no run is empty";
    for (std::int32_t k = runs.starts[run]; k < runs.starts[run + 1]; ++k) {
      const auto at = static_cast<std::size_t>(k);
      EXPECT_EQ(keys[static_cast<std::size_t>(runs.order[at])], runs.ids[run]);
      if (k > runs.starts[run]) {
        EXPECT_LT(runs.order[at - 1], runs.order[at]);
      }
    }
  }
}

TEST(PackedBatch, TwoSamplesByHand) {
  SampleStore samples;
  samples.append(testing::small_sample().view());
  const testing::OwnedSample no_mask{.ids = {2, 9, 3, 9, 3}, .segments = {0, 0, 0, 1, 1}, .positions = {}, .labels = {}, .next = 0};
  samples.append(no_mask.view());
  const PackedBatch batch = pack(samples);
  EXPECT_EQ(batch.tokens(), 12);
  EXPECT_EQ(batch.sequences(), 2);
  EXPECT_EQ(batch.head_rows(), 4);
  EXPECT_EQ(batch.masked(), 2);
  EXPECT_EQ(batch.cu_tokens, (Ints{0, 7, 12}));
  EXPECT_EQ(batch.positions, (Ints{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.sequences_of_tokens, (Ints{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(batch.head_token_rows, (Ints{0, 1, 5, 7}));
  EXPECT_EQ(batch.head_positions, (Ints{0, 1, 5, 0}));
  EXPECT_EQ(batch.head_sequences, (Ints{0, 0, 0, 1}));
  EXPECT_EQ(batch.cu_head_rows, (Ints{0, 3, 4}));
  EXPECT_EQ(batch.mlm_head_rows, (Ints{1, 2}));
  EXPECT_EQ(batch.mlm_labels, (Ints{20, 21}));
  EXPECT_EQ(batch.cls_head_rows, (Ints{0, 3}));
  EXPECT_EQ(batch.nsp_labels, (Ints{1, 0}));
  EXPECT_EQ(batch.sample_indices, (std::vector<std::uint64_t>{100, 101}));
  EXPECT_EQ(batch.word_runs.ids, (Ints{2, 3, 4, 9, 11, 12}));
  EXPECT_EQ(batch.word_runs.order, (Ints{0, 7, 3, 6, 9, 11, 1, 5, 8, 10, 2, 4}));
}

TEST(PackedBatch, RunsCoverEveryRowOnceInOrder) {
  for (const std::int64_t count : {1, 3, 17}) {
    const PackedBatch batch = pack(testing::random_samples(count, static_cast<std::uint64_t>(count)));
    expect_runs(batch.word_runs, batch.token_ids);
    expect_runs(batch.position_runs, batch.positions);
    expect_runs(batch.segment_runs, batch.segment_ids);
  }
}

TEST(PackedBatch, AnEmptyBatchHasNoRuns) {
  const PackedBatch batch = pack(SampleStore());
  EXPECT_EQ(batch.tokens(), 0);
  EXPECT_EQ(batch.cu_tokens, Ints{0});
  EXPECT_EQ(batch.word_runs.count, 0);
  EXPECT_EQ(batch.word_runs.starts, Ints{0});
}

TEST(PackedBatch, ReservedVectorsNeverGrow) {
  const SampleStore samples = testing::random_samples(6, 2);
  PackedBatch batch;
  batch.reserve({.sequences = 6, .tokens = 6 * testing::kTestSeqLen, .masked = 6 * testing::kTestPredictions});
  const auto addresses = [&] {
    std::vector<const void*> all;
    for (const auto* vector : {&batch.token_ids, &batch.cu_tokens, &batch.head_token_rows, &batch.mlm_labels, &batch.cls_head_rows,
                               &batch.word_runs.order, &batch.word_runs.starts, &batch.word_runs.ids, &batch.position_runs.order}) {
      all.push_back(vector->data());
    }
    return all;
  };
  const auto before = addresses();
  for (int turn = 0; turn < 3; ++turn) {
    batch.clear();
    for (std::int64_t row = 0; row < samples.size(); ++row) batch.append(samples[row], 0);
    batch.finish();
  }
  EXPECT_EQ(addresses(), before);
}

}  // namespace
}  // namespace flashbert
