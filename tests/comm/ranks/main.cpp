#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "world.h"

int main(int argc, char** argv) {
  const flashbert::MpiSession session(&argc, &argv);
  const std::unique_ptr<flashbert::Ranks> ranks = flashbert::make_ranks(session);
  flashbert::session = &session;
  flashbert::world = ranks.get();
  testing::InitGoogleTest(&argc, argv);
  std::int64_t failed = RUN_ALL_TESTS();
  // A rank that failed must fail the job, also where the root's checks all held.
  ranks->all_reduce_max(std::span<std::int64_t>(&failed, 1));
  return static_cast<int>(failed);
}
