#include "core/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace flashbert {
namespace {

/// /proc/meminfo counts kibibytes.
std::int64_t told_by_the_kernel() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  for (std::int64_t kibibytes = 0; file >> word;) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return -1;
}

// Other processes take and give memory meanwhile: between the readings around it, give or take a hundredth. A kilobyte of 1,000 bytes would
// be off by more than two.
TEST(AvailableMemory, IsWhatTheKernelTellsInBytes) {
  if (std::ifstream("/sys/fs/cgroup/memory.max")) GTEST_SKIP() << "a control group's limit may be the lower one here";
  const std::int64_t before = told_by_the_kernel();
  const std::int64_t got = available_memory_bytes();
  const std::int64_t after = told_by_the_kernel();
  ASSERT_GT(before, 0);
  EXPECT_GE(got, std::min(before, after) / 100 * 99);
  EXPECT_LE(got, std::max(before, after) / 100 * 101);
}

}  // namespace
}  // namespace flashbert
