#include "train/batch_split.h"

#include <gtest/gtest.h>

#include "train/backend.h"

namespace flashbert::testing {
namespace {

/// The micro-batch that is chosen for this batch on a machine with so much free memory.
BatchSplit chosen(std::int64_t global_batch, std::int64_t free_bytes) {
  TrainSettings settings;
  settings.model = {.layers = 1, .hidden = 16, .heads = 2, .intermediate = 16, .vocab = 64, .max_positions = 128, .type_vocab = 2};
  settings.global_batch = global_batch;
  settings.precision = Precision::kF32;
  settings.threads = 1;
  const auto alone = make_self_ranks();
  const Backend backend = make_backend(settings, *alone);
  DataSet data;
  data.shards.resize(1);
  data.samples = 1000;
  data.seq_len = 128;
  data.max_predictions = 20;
  const Machine machine = {.ranks = 1, .local_ranks = 1, .compute = backend.compute, .free_bytes = free_bytes};
  return plan_batch(settings, machine, {&data}, *backend.ops).split;
}

TEST(BatchSplit, ChoosesTheLargestMicroBatchOfAtMost8192TokensThatDividesTheBatch) {
  constexpr std::int64_t kPlenty = std::int64_t{8} << 30;
  // 64 sequences of 128 tokens are exactly 8,192.
  for (const auto& [batch, micro] : {std::pair{128, 64}, std::pair{64, 64}, std::pair{65, 13}, std::pair{96, 48}, std::pair{7, 7}}) {
    const BatchSplit split = chosen(batch, kPlenty);
    EXPECT_EQ(split.micro_batch, micro) << batch;
    EXPECT_EQ(split.accumulation, batch / micro) << batch;
  }
}

TEST(BatchSplit, ChoosesASmallerMicroBatchWhereMemoryIsShort) {
  const std::int64_t whole = chosen(64, std::int64_t{8} << 30).micro_batch;
  const std::int64_t less = chosen(64, std::int64_t{8} << 20).micro_batch;
  EXPECT_EQ(whole, 64);
  EXPECT_LT(less, whole);
  EXPECT_EQ(chosen(64, 1).micro_batch, 1);  // one sample is the least; whether it fits is seen when memory is taken
}

TEST(BatchSplit, BooksASumOverMicroBatchesOnlyWhereClippedOnesAreAdded) {
  const auto alone = make_self_ranks();
  TrainSettings settings;
  settings.precision = Precision::kF32;
  settings.threads = 1;
  const Backend backend = make_backend(settings, *alone);
  const auto gradients = [&](ClipOrder clip, std::int64_t accumulation) {
    EngineOptions options{
        .model = {.layers = 1, .hidden = 16, .heads = 2, .intermediate = 16, .vocab = 64, .max_positions = 128, .type_vocab = 2},
        .optimizer = {},
        .compute = backend.compute,
        .capacity = {.sequences = 1, .tokens = 128, .masked = 20, .seq_len = 128},
        .global_batch = accumulation,
        .accumulation = accumulation,
        .clip = clip};
    return EngineParts(options, *backend.ops).plan.group_bytes("gradients");
  };
  const std::int64_t once = gradients(ClipOrder::kAfterReduce, 1);
  EXPECT_EQ(gradients(ClipOrder::kAfterReduce, 2), once);
  EXPECT_EQ(gradients(ClipOrder::kBeforeReduce, 1), once);
  EXPECT_GE(gradients(ClipOrder::kBeforeReduce, 2), 2 * once);
}

}  // namespace
}  // namespace flashbert::testing
