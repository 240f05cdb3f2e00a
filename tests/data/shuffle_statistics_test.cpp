// Shuffles by their statistics: what no single order can show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data/random_stream.h"
#include "data/sample_order.h"

namespace flashbert {
namespace {

/// Pearson's statistic of equally likely cells has mean n - 1 and variance below 2 (n - 1); its distribution's tail is that of chi-square.
/// Six standard deviations above the mean are passed with a probability below 1e-6 for 23 degrees of freedom and more.
void expect_uniform(const std::vector<std::int64_t>& counts, const char* what) {
  const double total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0.0;
  for (const std::int64_t count : counts) {
    statistic += (static_cast<double>(count) - expected) * (static_cast<double>(count) - expected) / expected;
  }
  const double freedom = static_cast<double>(counts.size()) - 1.0;
  EXPECT_LT(statistic, freedom + 6.0 * std::sqrt(2.0 * freedom)) << what;
}

constexpr int kDraws = 24'000;

template <class Order>
std::vector<std::int64_t> count_orders(const Order& order_of) {
  std::map<std::vector<std::int64_t>, std::int64_t> seen;
  for (int i = 0; i < kDraws; ++i) ++seen[order_of(i)];
  std::vector<std::int64_t> counts(24, 0);
  std::size_t cell = 0;
  EXPECT_LE(seen.size(), 24U);
  for (const auto& [order, count] : seen) counts[cell++] = count;
  return counts;
}

TEST(ShuffleStatistics, EveryOrderOfFourIsEquallyLikely) {
  expect_uniform(count_orders([](int i) {
                   std::vector<std::int64_t> values = {0, 1, 2, 3};
                   RandomStream({.seed = 3, .domain = 4, .purpose = 1, .index = static_cast<std::uint64_t>(i)}).shuffle(values);
                   return values;
                 }),
                 "shuffle");
}

TEST(ShuffleStatistics, RowsOfAnEpochTakeEveryOrderOverEpochsAndOverSeeds) {
  const std::int64_t shards[] = {4};
  const auto rows = [&](std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::int64_t> order;
    for (const SampleId& id : SampleOrder(seed, shards, 100).window_at(4 * epoch).order) order.push_back(id.row);
    return order;
  };
  expect_uniform(count_orders([&](int i) { return rows(7, i); }), "epochs");
  expect_uniform(count_orders([&](int i) { return rows(static_cast<std::uint64_t>(i), 0); }), "seeds");
}

TEST(ShuffleStatistics, ShardsOfAnEpochTakeEveryOrder) {
  const std::int64_t shards[] = {1, 1, 1, 1};
  expect_uniform(count_orders([&](int i) {
                   // Windows of one shard, so that the order of shards is seen and not that of rows.
                   std::vector<std::int64_t> order;
                   for (std::int64_t k = 0; k < 4; ++k) {
                     order.push_back(SampleOrder(11, shards, 1).window_at(4 * std::int64_t{i} + k).order.at(0).shard);
                   }
                   return order;
                 }),
                 "shards");
}

TEST(ShuffleStatistics, NumbersBelowALimitAreUniform) {
  RandomStream stream({.seed = 5, .domain = 6, .purpose = 2, .index = 9});
  std::vector<std::int64_t> counts(37, 0);
  for (int i = 0; i < 37'000; ++i) ++counts[static_cast<std::size_t>(stream.below(37))];
  expect_uniform(counts, "below");
  std::vector<std::int64_t> cells(50, 0);
  for (int i = 0; i < 50'000; ++i) {
    const double value = stream.unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++cells[static_cast<std::size_t>(value * 50.0)];
  }
  expect_uniform(cells, "unit");
}

TEST(ShuffleStatistics, StreamsOfOneSeedAreIndependent) {
  const auto first = [](const RandomStream::Id& id) { return RandomStream(id).bits(); };
  const RandomStream::Id base{.seed = 5, .domain = 6, .purpose = 2, .index = 9};
  // Equal words of different streams have a probability of 2^-64 each.
  for (const RandomStream::Id& other : {RandomStream::Id{.seed = 4, .domain = 6, .purpose = 2, .index = 9},
                                        {.seed = 5 + (1ULL << 32), .domain = 6, .purpose = 2, .index = 9},
                                        {.seed = 5, .domain = 1, .purpose = 2, .index = 9},
                                        {.seed = 5, .domain = 6, .purpose = 3, .index = 9},
                                        {.seed = 5, .domain = 6, .purpose = 2, .index = 8},
                                        {.seed = 5, .domain = 6, .purpose = 2, .index = 9 + (1ULL << 32)}}) {
    EXPECT_NE(first(other), first(base));
  }
  RandomStream twice(base);
  EXPECT_NE(twice.bits(), twice.bits());
}

}  // namespace
}  // namespace flashbert
