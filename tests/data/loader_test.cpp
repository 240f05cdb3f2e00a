#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data_support.h"
#include "support/shared_data.h"

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TestFolder;

constexpr SampleLimits kLimits{.vocab = testing::kTestVocab, .max_positions = testing::kTestSeqLen, .type_vocab = 2};
constexpr std::int64_t kSamples = 53;

/// Five shards of 53 samples together.
DataSet small_set(const TestFolder& folder, WrittenLayout layout = WrittenLayout::kVarlength) {
  write_shards(folder.path(), testing::random_samples(kSamples, 8), 5, testing::test_format(layout));
  return open_data_set(folder.path(), testing::kTestSeqLen);
}

LoaderOptions small_options() {
  constexpr std::int64_t kMicroBatch = 4;
  return {.seed = 21,
          .global_batch = 8,
          .micro_batch = kMicroBatch,
          .rank = 0,
          .ranks = 1,
          .first_step = 0,
          .window_samples = 25,
          .capacity = {.sequences = kMicroBatch,
                       .tokens = kMicroBatch * testing::kTestSeqLen,
                       .masked = kMicroBatch * testing::kTestPredictions},
          .limits = kLimits};
}

/// One step as all ranks together see it, whatever the ranks and micro-batches: what stands in each slot.
struct WholeStep {
  std::vector<SampleId> slots;
  std::vector<std::uint64_t> sample_indices;
  std::vector<std::int32_t> token_ids, labels;
  std::int64_t masked = 0, tokens = 0;
  friend bool operator==(const WholeStep&, const WholeStep&) = default;
};

std::vector<WholeStep> load_steps(const DataSet& set, LoaderOptions options, int steps) {
  std::vector<WholeStep> whole(static_cast<std::size_t>(steps));
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
    Loader loader(set, options);
    loader.start();
    for (int step = 0; step < steps; ++step) {
      const StepBatch& batch = loader.next();
      WholeStep& all = whole[static_cast<std::size_t>(step)];
      EXPECT_EQ(batch.step, options.first_step + step);
      if (options.rank > 0) {
        EXPECT_EQ(batch.global_masked, all.masked) << "every rank knows the global count";
      }
      all.masked = batch.global_masked;
      all.tokens = batch.global_tokens;
      all.slots.insert(all.slots.end(), batch.slots.begin(), batch.slots.end());
      for (const PackedBatch& micro : batch.micro_batches) {
        EXPECT_LE(micro.sequences(), options.micro_batch);
        all.sample_indices.insert(all.sample_indices.end(), micro.sample_indices.begin(), micro.sample_indices.end());
        all.token_ids.insert(all.token_ids.end(), micro.token_ids.begin(), micro.token_ids.end());
        all.labels.insert(all.labels.end(), micro.mlm_labels.begin(), micro.mlm_labels.end());
      }
    }
  }
  return whole;
}

TEST(OpenDataSet, EmptyShardsAreSkipped) {
  const TestFolder folder;
  testing::write_all(folder / "part_0", SampleStore(), WrittenLayout::kFixed);
  EXPECT_THAT(message_of<InputError>([&] { open_data_set(folder.path(), 512); }), HasSubstr("holds no samples"));
  testing::write_all(folder / "part_1", testing::random_samples(3, 1), WrittenLayout::kFixed);
  const DataSet set = open_data_set(folder.path(), 512);
  EXPECT_EQ(set.shards.size(), 1U);
  EXPECT_EQ(set.samples, 3);
  EXPECT_EQ(set.seq_len, testing::kTestSeqLen);
}

TEST(OpenDataSet, TheReferencesEmptyShardIsSkipped) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path file = shared / "data" / "shards" / "fixed-v1" / "empty.hdf5";
  EXPECT_THAT(message_of<InputError>([&] { open_data_set(file, 512); }), HasSubstr("every shard in it is empty"));
}

TEST(OpenDataSet, RefusesRowsWiderThanTheModelWithBothNumbers) {
  const TestFolder folder;
  testing::write_all(folder / "part_0", testing::random_samples(3, 1), WrittenLayout::kFixed);
  EXPECT_THAT(message_of<InputError>([&] { open_data_set(folder.path(), 16); }),
              AllOf(HasSubstr((folder / "part_0").string()), HasSubstr("rows of 24 tokens"), HasSubstr("16 positions")));
}

TEST(OpenDataSet, RefusesShardsOfDifferentWidths) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(3, 1);
  testing::write_all(folder / "part_0", samples, WrittenLayout::kFixed);
  write_shard(folder / "part_1", samples, {.begin = 0, .count = 3}, {.layout = WrittenLayout::kFixed, .seq_len = 32, .max_predictions = 5});
  EXPECT_THAT(message_of<InputError>([&] { open_data_set(folder.path(), 512); }),
              AllOf(HasSubstr("part_1 has rows of 32 tokens and 5 predictions"), HasSubstr("have 24 and 4")));
}

TEST(Loader, StepsFollowTheSampleOrder) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  std::vector<std::int64_t> sizes;
  for (const ShardInfo& shard : set.shards) sizes.push_back(shard.samples);
  const LoaderOptions options = small_options();
  const SampleOrder order(options.seed, sizes, options.window_samples);
  constexpr int kSteps = 15;  // more than two epochs
  const auto steps = load_steps(set, options, kSteps);
  for (std::int64_t index = 0; index < kSteps * options.global_batch; ++index) {
    const SampleOrder::Window window = order.window_at(index);
    const auto& step = steps[static_cast<std::size_t>(index / options.global_batch)];
    const auto slot = static_cast<std::size_t>(index % options.global_batch);
    EXPECT_EQ(step.slots[slot], window.order[static_cast<std::size_t>(index - window.first_index)]);
    EXPECT_EQ(step.sample_indices[slot], static_cast<std::uint64_t>(index));
  }
}

TEST(Loader, RanksAndMicroBatchesDoNotChangeTheSlots) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  const auto want = load_steps(set, small_options(), 10);
  for (const int ranks : {1, 2, 4}) {
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      LoaderOptions options = small_options();
      options.ranks = ranks;
      options.micro_batch = micro_batch;
      EXPECT_EQ(load_steps(set, options, 10), want) << ranks << " ranks, micro-batch " << micro_batch;
    }
  }
}

TEST(Loader, CountsAreThoseOfTheWholeBatch) {
  const TestFolder folder;
  for (const WholeStep& step : load_steps(small_set(folder), small_options(), 10)) {
    EXPECT_EQ(step.masked, static_cast<std::int64_t>(step.labels.size()));
    EXPECT_EQ(step.tokens, static_cast<std::int64_t>(step.token_ids.size()));
  }
}

TEST(Loader, AResumedRunSeesTheSameSteps) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  const auto whole = load_steps(set, small_options(), 12);
  LoaderOptions resumed = small_options();
  resumed.first_step = 9;
  EXPECT_EQ(load_steps(set, resumed, 3), (std::vector<WholeStep>{whole[9], whole[10], whole[11]}));
}

TEST(Loader, LayoutsGiveTheSameSteps) {
  const TestFolder folder;
  const auto want = load_steps(small_set(folder), small_options(), 8);
  fs::remove_all(folder.path());
  EXPECT_EQ(load_steps(small_set(folder, WrittenLayout::kFixed), small_options(), 8), want);
}

TEST(Loader, StepsStayInTheSameMemory) {
  const TestFolder folder;
  Loader loader(small_set(folder), small_options(), 2);
  loader.start();
  std::vector<const void*> first_round, second_round;
  for (int step = 0; step < 3; ++step) first_round.push_back(loader.next().micro_batches[0].token_ids.data());
  for (int step = 0; step < 3; ++step) second_round.push_back(loader.next().micro_batches[0].token_ids.data());
  EXPECT_EQ(first_round, second_round);
  EXPECT_GE(loader.wait_s(), 0.0);
}

TEST(Loader, CanBeDestroyedAtAnyTime) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  { const Loader never_started(set, small_options()); }
  for (int steps = 0; steps < 8; ++steps) {
    Loader loader(set, small_options(), 1 + steps % 3);
    loader.start();
    for (int step = 0; step < steps; ++step) loader.next();
  }
}

TEST(Loader, ReadsNoSampleBeforeStart) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  for (const ShardInfo& shard : set.shards) fs::remove(shard.path);
  Loader loader(set, small_options());
  EXPECT_THAT(message_of<std::logic_error>([&] { loader.next(); }), HasSubstr("before start()"));
  loader.start();
  EXPECT_THAT(message_of<InputError>([&] { loader.next(); }), HasSubstr("does not exist"));
}

TEST(Loader, ErrorsOfTheThreadAreThrownByNext) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  LoaderOptions options = small_options();
  options.limits.vocab = 10;
  Loader loader(set, options);
  loader.start();
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_THAT(message_of<InputError>([&] { loader.next(); }), AllOf(HasSubstr(folder.path().string()), HasSubstr("has 10")));
  }
}

TEST(Loader, SamplesDenserThanPlannedAreRefused) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  LoaderOptions options = small_options();
  options.capacity.masked = options.micro_batch * (testing::kTestPredictions - 1);
  Loader loader(set, options);
  loader.start();
  EXPECT_THAT(message_of<InputError>([&] {
                for (int step = 0; step < kSamples; ++step) loader.next();
              }),
              HasSubstr("has 4 masked positions, the run is planned for at most 3 a sample"));
}

TEST(Loader, RefusesBatchesThatRanksCannotShare) {
  const TestFolder folder;
  LoaderOptions options = small_options();
  options.ranks = 3;
  EXPECT_THAT(message_of<ConfigError>([&] { const Loader loader(small_set(folder), options); }),
              HasSubstr("global-batch 8 cannot be shared equally by 3 ranks"));
}

TEST(LoadEvaluation, RanksShareTheFirstSamplesInFileOrder) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  const SampleStore samples = testing::random_samples(kSamples, 8);
  for (const int ranks : {1, 2, 3, 60}) {
    std::uint64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const PackedBatch& batch : load_evaluation(set, 47, 4, rank, ranks, kLimits)) {
        ASSERT_GT(batch.sequences(), 0);
        EXPECT_LE(batch.sequences(), 4);
        for (std::int64_t sequence = 0; sequence < batch.sequences(); ++sequence) {
          EXPECT_EQ(batch.sample_indices[static_cast<std::size_t>(sequence)], next);
          const SampleView want = samples[static_cast<std::int64_t>(next++)];
          const auto begin = batch.token_ids.begin() + batch.cu_tokens[static_cast<std::size_t>(sequence)];
          EXPECT_TRUE(std::equal(want.token_ids.begin(), want.token_ids.end(), begin));
        }
      }
    }
    EXPECT_EQ(next, 47U) << ranks << " ranks";
  }
}

TEST(LoadEvaluation, RefusesMoreSamplesThanThereAre) {
  const TestFolder folder;
  const DataSet set = small_set(folder);
  EXPECT_THAT(message_of<InputError>([&] { load_evaluation(set, 54, 4, 0, 1, kLimits); }),
              HasSubstr("eval-samples is 54, the evaluation set holds 53"));
}

}  // namespace
}  // namespace flashbert
