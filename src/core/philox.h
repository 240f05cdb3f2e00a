#pragma once

#include <array>
#include <cstdint>

#include "core/host_device.h"
#include "core/philox_constants.h"

namespace flashbert {

/// Philox4x32-10: four random words from a 128-bit counter and a 64-bit key. Pure; bit-equal everywhere.
/// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11; constants and known answers of Random123.
struct Philox {
  using Counter = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  FLASHBERT_HOST_DEVICE static constexpr Counter random(Counter counter, Key key) {
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const std::uint64_t product0 = static_cast<std::uint64_t>(kPhiloxMultiplier0) * counter[0];
      const std::uint64_t product1 = static_cast<std::uint64_t>(kPhiloxMultiplier1) * counter[2];
      counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
                 static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
      key = {key[0] + kPhiloxWeyl0, key[1] + kPhiloxWeyl1};
    }
    return counter;
  }
};

}  // namespace flashbert
