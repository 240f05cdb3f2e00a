#include "data/sample_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace flashbert {
namespace {

constexpr std::int64_t kShards[] = {5, 1, 8, 3, 7};  // 24 samples
constexpr std::int64_t kWindow = 10;

std::vector<SampleId> order_of(const SampleOrder& order, std::int64_t begin, std::int64_t count) {
  std::vector<SampleId> ids;
  for (std::int64_t index = begin; index < begin + count; ++index) {
    const SampleOrder::Window window = order.window_at(index);
    EXPECT_TRUE(window.holds(index));
    ids.push_back(window.order[static_cast<std::size_t>(index - window.first_index)]);
  }
  return ids;
}

TEST(SampleOrder, EveryEpochHoldsEachSampleOnce) {
  const SampleOrder order(17, kShards, kWindow);
  ASSERT_EQ(order.samples_per_epoch(), 24);
  for (const std::int64_t epoch : {0, 1, 5}) {
    std::set<std::pair<std::int32_t, std::int64_t>> seen;
    for (const SampleId& id : order_of(order, epoch * 24, 24)) {
      EXPECT_LT(id.row, kShards[id.shard]);
      seen.insert({id.shard, id.row});
    }
    EXPECT_EQ(seen.size(), 24U) << "epoch " << epoch;
  }
}

TEST(SampleOrder, IsAPureFunctionOfSeedAndIndex) {
  const SampleOrder order(17, kShards, kWindow);
  const auto forwards = order_of(order, 0, 60);
  const SampleOrder again(17, kShards, kWindow);
  for (std::int64_t index = 59; index >= 0; --index) {
    EXPECT_EQ(order_of(again, index, 1)[0], forwards[static_cast<std::size_t>(index)]);
  }
}

TEST(SampleOrder, DiffersBySeedAndEpoch) {
  const SampleOrder order(17, kShards, kWindow);
  EXPECT_NE(order_of(order, 0, 24), order_of(order, 24, 24));
  EXPECT_NE(order_of(order, 0, 24), order_of(SampleOrder(18, kShards, kWindow), 0, 24));
}

TEST(SampleOrder, WindowsAreBoundedAndFollowEachOther) {
  const SampleOrder order(3, kShards, kWindow);
  std::int64_t next = 0;
  while (next < 3 * 24) {
    const SampleOrder::Window window = order.window_at(next);
    EXPECT_EQ(window.first_index, next);
    EXPECT_LE(static_cast<std::int64_t>(window.order.size()), kWindow);
    EXPECT_LE(window.end(), (next / 24 + 1) * 24) << "a window stays in its epoch";
    next = window.end();
  }
}

TEST(SampleOrder, AShardAboveTheWindowIsAWindowOfItsOwn) {
  const std::int64_t shards[] = {30, 2, 30};
  const SampleOrder order(3, shards, 4);
  for (std::int64_t index = 0; index < 62; index = order.window_at(index).end()) EXPECT_EQ(order.window_at(index).shards.size(), 1U);
}

TEST(SampleOrder, MixesTheShardsOfAWindow) {
  const std::int64_t shards[] = {500, 500};
  const auto ids = order_of(SampleOrder(9, shards, 1000), 0, 500);
  const auto first = std::count_if(ids.begin(), ids.end(), [](const SampleId& id) { return id.shard == 0; });
  // Hypergeometric: mean 250, standard deviation sqrt(500 * 1/4 * 500/999) = 7.9; five of them.
  EXPECT_NEAR(static_cast<double>(first), 250.0, 40.0);
}

}  // namespace
}  // namespace flashbert
