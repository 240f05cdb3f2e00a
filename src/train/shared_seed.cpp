#include "train/shared_seed.h"

#include <random>

namespace flashbert {

std::uint64_t shared_seed(std::uint64_t given, Ranks& ranks) {
  std::uint64_t seed = given;
  if (seed == 0 && ranks.root()) {
    std::random_device entropy;
    // 63 bits: the official seed check reads the value with a signed integer.
    while (seed == 0) seed = ((static_cast<std::uint64_t>(entropy()) << 32) | entropy()) >> 1;
  }
  ranks.broadcast(&seed, sizeof seed);
  return seed;
}

}  // namespace flashbert
