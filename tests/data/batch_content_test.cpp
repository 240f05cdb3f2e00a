#include <gtest/gtest.h>

#include <algorithm>

#include "data/loader.h"
#include "data/packed_batch.h"
#include "data_support.h"

// Batches against the rows they are made of, field by field.

namespace flashbert {
namespace {
using testing::TestFolder;
using Ints = std::vector<std::int32_t>;

constexpr std::int64_t kSamples = 29;
constexpr SampleLimits kLimits{.vocab = testing::kTestVocab, .max_positions = testing::kTestSeqLen, .type_vocab = 2};

/// Shards of 29 samples: by the reference's rule 9, 10 and 10 rows.
constexpr std::int64_t kFirstRows[] = {0, 9, 19};

template <class T>
Ints ints(std::span<const T> values) {
  return {values.begin(), values.end()};
}

Ints piece(const Ints& values, std::int32_t begin, std::int32_t end) { return {values.begin() + begin, values.begin() + end}; }

void expect_sequence(const PackedBatch& batch, std::size_t sequence, const SampleView& want) {
  const std::int32_t first = batch.cu_tokens[sequence];
  const std::int32_t last = batch.cu_tokens[sequence + 1];
  EXPECT_EQ(piece(batch.token_ids, first, last), ints(want.token_ids));
  EXPECT_EQ(piece(batch.segment_ids, first, last), ints(want.segment_ids));
  Ints positions;
  for (std::int32_t position = 0; position < last - first; ++position) positions.push_back(position);
  EXPECT_EQ(piece(batch.positions, first, last), positions);
  EXPECT_EQ(batch.nsp_labels[sequence], want.next_sentence_label);
  EXPECT_EQ(batch.head_token_rows[static_cast<std::size_t>(batch.cls_head_rows[sequence])], first);
  Ints masked_positions;
  Ints masked_labels;
  for (std::size_t i = 0; i < batch.mlm_labels.size(); ++i) {
    const std::int32_t row = batch.head_token_rows[static_cast<std::size_t>(batch.mlm_head_rows[i])];
    if (row < first || row >= last) continue;
    masked_positions.push_back(row - first);
    masked_labels.push_back(batch.mlm_labels[i]);
  }
  EXPECT_EQ(masked_positions, ints(want.masked_positions));
  EXPECT_EQ(masked_labels, ints(want.masked_labels));
}

/// Rows of each table entry by going over all rows once an entry.
void expect_runs(const SortedRuns& runs, const Ints& keys, std::int32_t entries) {
  Ints ids;
  Ints order;
  Ints starts;
  for (std::int32_t id = 0; id < entries; ++id) {
    const auto before = static_cast<std::int32_t>(order.size());
    for (std::size_t row = 0; row < keys.size(); ++row) {
      if (keys[row] == id) order.push_back(static_cast<std::int32_t>(row));
    }
    if (static_cast<std::int32_t>(order.size()) == before) continue;
    ids.push_back(id);
    starts.push_back(before);
  }
  starts.push_back(static_cast<std::int32_t>(keys.size()));
  EXPECT_EQ(runs.ids, ids);
  EXPECT_EQ(runs.order, order);
  EXPECT_EQ(runs.starts, starts);
}

void expect_batch_runs(const PackedBatch& batch) {
  expect_runs(batch.word_runs, batch.token_ids, static_cast<std::int32_t>(testing::kTestVocab));
  expect_runs(batch.position_runs, batch.positions, static_cast<std::int32_t>(testing::kTestSeqLen));
  expect_runs(batch.segment_runs, batch.segment_ids, 2);
}

TEST(BatchContent, EverySlotOfATrainingStepHoldsItsRowWhole) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(kSamples, 8);
  write_shards(folder.path(), samples, 3, testing::test_format(WrittenLayout::kVarlength));
  const DataSet set = open_data_set(folder.path(), testing::kTestSeqLen);
  constexpr std::int64_t kGlobal = 12;
  constexpr std::int64_t kMicro = 4;
  for (const int rank : {0, 1}) {
    Loader loader(set,
                  {.seed = 5,
                   .global_batch = kGlobal,
                   .micro_batch = kMicro,
                   .rank = rank,
                   .ranks = 2,
                   .first_step = 0,
                   .window_samples = 12,
                   .capacity = {.sequences = kMicro, .tokens = kMicro * testing::kTestSeqLen, .masked = kMicro * testing::kTestPredictions},
                   .limits = kLimits});
    loader.start();
    for (std::int64_t step = 0; step < 6; ++step) {
      const StepBatch& batch = loader.next();
      ASSERT_EQ(batch.slots.size(), 6U);
      ASSERT_EQ(batch.micro_batches.size(), 2U);
      EXPECT_EQ(batch.micro_batches[0].sequences(), 4);
      EXPECT_EQ(batch.micro_batches[1].sequences(), 2);
      std::size_t slot = 0;
      for (const PackedBatch& micro : batch.micro_batches) {
        for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(micro.sequences()); ++sequence, ++slot) {
          const SampleId id = batch.slots[slot];
          expect_sequence(micro, sequence, samples[kFirstRows[id.shard] + id.row]);
          EXPECT_EQ(micro.sample_indices[sequence], static_cast<std::uint64_t>(step * kGlobal + rank * 6) + slot);
        }
        expect_batch_runs(micro);
      }
    }
  }
}

TEST(BatchContent, EvaluationHoldsEachRowWholeAndRanksDifferByOneRowAtMost) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(kSamples, 8);
  write_shards(folder.path(), samples, 3, testing::test_format(WrittenLayout::kFixed));
  const DataSet set = open_data_set(folder.path(), testing::kTestSeqLen);
  for (const int ranks : {1, 2, 3, 4}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t before = next;
      for (const PackedBatch& batch : load_evaluation(set, 0, 4, rank, ranks, kLimits)) {
        for (std::size_t sequence = 0; sequence < static_cast<std::size_t>(batch.sequences()); ++sequence) {
          expect_sequence(batch, sequence, samples[next++]);
        }
        expect_batch_runs(batch);
      }
      EXPECT_GE(next - before, kSamples / ranks);
      EXPECT_LE(next - before, (kSamples + ranks - 1) / ranks);
    }
    EXPECT_EQ(next, kSamples);
  }
}

}  // namespace
}  // namespace flashbert
