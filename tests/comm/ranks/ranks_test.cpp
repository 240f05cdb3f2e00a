#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi_call.h"
#include "core/error.h"
#include "world.h"

namespace flashbert {
namespace {

std::int64_t sum_over_ranks() {
  const std::int64_t size = world->size();
  return size * (size + 1) / 2;  // of rank + 1
}

TEST(Ranks, AreAsManyAsTheLauncherStarted) {
  const char* const expected = std::getenv("FLASHBERT_EXPECTED_RANKS");
  if (expected == nullptr) GTEST_SKIP() << "FLASHBERT_EXPECTED_RANKS tells how many ranks were started";
  EXPECT_EQ(world->size(), std::atoi(expected));
  EXPECT_EQ(world->root(), world->rank() == 0);
}

TEST(Ranks, SumDoublesAndCounts) {
  std::vector<double> reals = {0.25 * (world->rank() + 1), 1.0};
  world->all_reduce_sum(std::span<double>(reals));
  EXPECT_EQ(reals[0], 0.25 * static_cast<double>(sum_over_ranks()));
  EXPECT_EQ(reals[1], world->size());
  std::vector<std::int64_t> counts = {world->rank() + 1, std::int64_t{1} << 53};
  world->all_reduce_sum(std::span<std::int64_t>(counts));
  EXPECT_EQ(counts[0], sum_over_ranks());
  EXPECT_EQ(counts[1], (std::int64_t{1} << 53) * world->size());
}

TEST(Ranks, FindTheLargest) {
  std::vector<std::int64_t> values = {world->rank(), -world->rank()};
  world->all_reduce_max(values);
  EXPECT_EQ(values[0], world->size() - 1);
  EXPECT_EQ(values[1], 0);
}

TEST(Ranks, NoValuesAreNoWork) {
  std::vector<double> none;
  world->all_reduce_sum(std::span<double>(none));
  EXPECT_TRUE(none.empty());
}

TEST(Ranks, AllGetTheRootsBytes) {
  std::vector<std::uint64_t> words(1000, static_cast<std::uint64_t>(world->rank()) + 77U);
  world->broadcast(words.data(), words.size() * sizeof(std::uint64_t));
  EXPECT_EQ(words, std::vector<std::uint64_t>(1000, 77U));
}

TEST(Ranks, ShareTheCoresOfTheirMachine) {
  EXPECT_EQ(world->local_size(), world->size());  // the test starts them on one machine
  EXPECT_GE(world->own_cores(), 1);
  std::int64_t cores = world->own_cores();
  world->all_reduce_sum(std::span<std::int64_t>(&cores, 1));
  // More ranks than cores get one each, never two.
  EXPECT_LE(cores, std::max<std::int64_t>(std::thread::hardware_concurrency(), world->size()));
}

TEST(Ranks, TellTheirLinesInOrder) {
  // Lines of different lengths: offsets must be those of the texts, not of the ranks.
  const std::string own = "rank " + std::to_string(world->rank()) + std::string(static_cast<std::size_t>(world->rank()), '!');
  const std::string all = world->gather_lines(own);
  std::string expected;
  for (int rank = 0; world->root() && rank < world->size(); ++rank) {
    expected += "rank " + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '!') + "\n";
  }
  EXPECT_EQ(all, expected);
}

TEST(Ranks, AFailedCallTellsItsNameAndTheRank) {
  check_mpi(0, "MPI_Bcast");
  try {
    check_mpi(1, "MPI_Bcast");
    ADD_FAILURE() << "a call that failed went by";
  } catch (const PeerError& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith("rank " + std::to_string(world->rank()) + ": MPI_Bcast failed: "));
  }
}

}  // namespace
}  // namespace flashbert
