#include <gtest/gtest.h>

#include "collective_claims.h"
#include "support/thread_ranks.h"

namespace flashbert::testing {
namespace {

TEST(SelfCollectives, KeepTheContract) {
  const auto alone = make_self_collectives();
  EXPECT_EQ(alone->size(), 1);
  expect_collectives(*alone, 1, Longest::kShort);
  expect_refusals(*alone);
  expect_device_memory_refused(*alone);
}

TEST(ThreadCollectives, KeepTheContractOnAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4}) {
    SCOPED_TRACE(size);
    ThreadRanks(size).run([&](Peers peers) {
      EXPECT_EQ(peers.ranks.local_size(), size);
      expect_collectives(peers.collectives, size, Longest::kShort);
      expect_refusals(peers.collectives);
    });
  }
}

TEST(ThreadCollectives, JoinRanksOfAMachineAndOfAPlace) {
  for (const int ranks_per_node : {1, 2, 3}) {
    SCOPED_TRACE(ranks_per_node);
    ThreadRanks(5, ranks_per_node).run([&](Peers peers) { expect_collectives(peers.collectives, ranks_per_node, Longest::kShort); });
  }
}

}  // namespace
}  // namespace flashbert::testing
