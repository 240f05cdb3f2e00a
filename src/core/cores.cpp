#include "core/cores.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <thread>

namespace flashbert {

static_assert(CPU_SETSIZE == 64 * std::tuple_size_v<CoreMask>);

CoreMask bound_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    for (std::size_t core = 0; core < std::min<std::size_t>(std::thread::hardware_concurrency(), CPU_SETSIZE); ++core) CPU_SET(core, &set);
  }
  CoreMask mask{};
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) mask[core / 64] |= std::uint64_t{1} << (core % 64);
  }
  return mask;
}

int count_cores(const CoreMask& mask) {
  int cores = 0;
  for (const std::uint64_t word : mask) cores += std::popcount(word);
  return cores;
}

}  // namespace flashbert
