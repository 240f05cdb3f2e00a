#pragma once

#include <cstdint>

// Constants only: sources with instruction-set flags include this (tests/layers).
namespace flashbert {

/// Of Philox4x32-10 (core/philox.h). Source: Random123.
inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53U;
inline constexpr std::uint32_t kPhiloxMultiplier1 = 0xCD9E8D57U;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9U;
inline constexpr std::uint32_t kPhiloxWeyl1 = 0xBB67AE85U;
inline constexpr int kPhiloxRounds = 10;

}  // namespace flashbert
