#include "train/shared_seed.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "support/thread_ranks.h"

namespace flashbert::testing {
namespace {

std::vector<std::uint64_t> seeds_of(int size, std::uint64_t given) {
  std::vector<std::uint64_t> seeds;
  std::mutex one_at_a_time;
  ThreadRanks(size).run([&](Peers peers) {
    const std::uint64_t seed = shared_seed(given, peers.ranks);
    const std::lock_guard lock(one_at_a_time);
    seeds.push_back(seed);
  });
  return seeds;
}

TEST(SharedSeed, OfTheSystemIsOneNumberOnAllRanksAndAnotherEachTime) {
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 10; ++i) {
    const auto seeds = seeds_of(3, 0);
    EXPECT_EQ(seeds, std::vector<std::uint64_t>(3, seeds[0]));
    drawn.insert(seeds[0]);
    EXPECT_LT(seeds[0], std::uint64_t{1} << 63);  // the official seed check reads a signed number
  }
  EXPECT_EQ(drawn.size(), 10U);
  // 63 bits: ten draws that all stay below 2^32 have a probability of 2^-310.
  EXPECT_GT(*drawn.rbegin(), std::uint64_t{1} << 32);
}

TEST(SharedSeed, GivenByHandIsKept) { EXPECT_EQ(seeds_of(2, 77), (std::vector<std::uint64_t>{77, 77})); }

}  // namespace
}  // namespace flashbert::testing
