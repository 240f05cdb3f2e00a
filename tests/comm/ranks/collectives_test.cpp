#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/collective_claims.h"
#include "world.h"

namespace flashbert::testing {
namespace {

TEST(MpiCollectives, KeepTheContract) {
  const auto collectives = make_collectives(*session);
  EXPECT_EQ(collectives->size(), world->size());
  EXPECT_EQ(collectives->rank(), world->rank());
  expect_collectives(*collectives, world->local_size(), Longest::kSeveralPieces);
  expect_refusals(*collectives);
  if (session->active()) expect_device_memory_refused(*collectives);
}

TEST(MpiCollectives, JoinRanksOfAMachineAndOfAPlace) {
  for (const int ranks_per_node : {1, 2, 3}) {
    if (!session->active()) break;
    SCOPED_TRACE(ranks_per_node);
    expect_collectives(*make_collectives(*session, {.ranks_per_node = ranks_per_node}), ranks_per_node, Longest::kShort);
  }
}

/// Runs before and after a change of how sums are cut must give the same weights: slices of 2 MiB, by MPI_Allreduce.
TEST(MpiCollectives, SumsOfFloatsAreThoseOfMpiInSlicesOf2MiB) {
  if (!session->active()) GTEST_SKIP() << "needs an MPI launcher";
  constexpr std::int64_t kSlice = 524'288;
  constexpr std::int64_t kCount = 2 * kSlice + 12'345;
  Values<float> wanted(kCount);
  fill(wanted, world->rank());
  for (std::int64_t begin = 0; begin < kCount; begin += kSlice) {
    ASSERT_EQ(
        MPI_Allreduce(MPI_IN_PLACE, &wanted[begin], static_cast<int>(std::min(kSlice, kCount - begin)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
        MPI_SUCCESS);
  }
  Values<float> values(kCount);
  fill(values, world->rank());
  make_collectives(*session)->all_reduce(values.tensor());
  expect_values(values, [&](std::int64_t i) { return wanted[i]; });
}

}  // namespace
}  // namespace flashbert::testing
