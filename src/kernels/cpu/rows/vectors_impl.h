// Walks over columns in whole vectors and a rest, for the row kernels; at the width of simd.h and in an unnamed namespace.
#pragma once

#include "kernels/cpu/simd/simd.h"

namespace flashbert::cpu {
namespace {

/// How many lanes an access touches: all (known when compiled), or the first `count`, 0 < count < kLanes.
struct Whole {};
struct Part {
  std::int64_t count;
};

inline VecF load_lanes(const float* p, Whole) { return load(p); }
inline VecF load_lanes(const Half* p, Whole) { return load_bf16(p); }
template <class T>
inline VecF load_lanes(const T* p, Part part) {
  return load_part(p, part.count);
}
inline void store_lanes(float* p, VecF x, Whole) { store(p, x); }
inline void store_lanes(Half* p, VecF x, Whole) { store_bf16(p, x); }
template <class T>
inline void store_lanes(T* p, VecF x, Part part) {
  store_part(p, x, part.count);
}
/// x with 0 in the lanes not touched.
inline VecF zero_rest(VecF x, Whole) { return x; }
inline VecF zero_rest(VecF x, Part part) { return keep_lanes(x, (1U << part.count) - 1U); }

/// Calls f(lanes, c) for the vectors that start at columns c = 0, kLanes, ...
template <class Function>
inline void for_columns(std::int64_t columns, const Function& f) {
  std::int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) f(Whole{}, c);
  if (c < columns) f(Part{columns - c}, c);
}

/// Sum of f(lanes, c) over the columns: four running vectors, a fixed tree at the end. f gives 0 in lanes past the last column.
template <class Function>
inline float sum_columns(std::int64_t columns, const Function& f) {
  VecF sum0 = zero();
  VecF sum1 = zero();
  VecF sum2 = zero();
  VecF sum3 = zero();
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    sum0 = sum0 + f(Whole{}, c);
    sum1 = sum1 + f(Whole{}, c + kLanes);
    sum2 = sum2 + f(Whole{}, c + 2 * kLanes);
    sum3 = sum3 + f(Whole{}, c + 3 * kLanes);
  }
  for (; c + kLanes <= columns; c += kLanes) sum0 = sum0 + f(Whole{}, c);
  if (c < columns) sum1 = sum1 + f(Part{columns - c}, c);
  return sum_lanes((sum0 + sum1) + (sum2 + sum3));
}

/// Keep bits of the lanes from column c, a multiple of 8; a part is always 8 columns.
inline std::uint32_t keep_bits(const std::uint8_t* keep, std::int64_t c, Part) { return keep[c / 8]; }
inline std::uint32_t keep_bits(const std::uint8_t* keep, std::int64_t c, Whole) {
  if constexpr (kLanes == 8) return keep[c / 8];
  std::uint16_t bits = 0;
  __builtin_memcpy(&bits, keep + c / 8, sizeof(bits));
  return bits;
}
/// x * scale where kept, else 0; x itself without a mask.
template <class Lanes>
inline VecF masked(VecF x, const std::uint8_t* keep, float scale, std::int64_t c, Lanes lanes) {
  return keep == nullptr ? x : keep_lanes(x, keep_bits(keep, c, lanes)) * splat(scale);
}

}  // namespace
}  // namespace flashbert::cpu
