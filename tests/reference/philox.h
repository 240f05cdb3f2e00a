#pragma once

#include <array>
#include <cstdint>

namespace flashbert::reference {

/// Philox4x32-10 once more, from the paper (Salmon et al., SC11, section 3.3 and table 2) and not from the program: ten rounds on
/// (L0, R0, L1, R1), round keys raised by the golden ratio and by sqrt(3) - 1.
inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::uint64_t key) {
  std::uint64_t key0 = key & 0xffffffffULL;
  std::uint64_t key1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0];
    const std::uint64_t b = 0xCD9E8D57ULL * counter[2];
    const std::uint64_t x0 = (b >> 32) ^ counter[1] ^ key0;
    const std::uint64_t x2 = (a >> 32) ^ counter[3] ^ key1;
    counter = {static_cast<std::uint32_t>(x0), static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(x2),
               static_cast<std::uint32_t>(a)};
    key0 = (key0 + 0x9E3779B9ULL) & 0xffffffffULL;
    key1 = (key1 + 0xBB67AE85ULL) & 0xffffffffULL;
  }
  return counter;
}

}  // namespace flashbert::reference
