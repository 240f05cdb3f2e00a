#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/element_type.h"

namespace flashbert {

/// bfloat16: the upper 16 bits of an IEEE f32 (8 exponent bits, 7 stored mantissa bits).
struct bf16 {
  std::uint16_t bits = 0;
  friend bool operator==(bf16, bf16) = default;
};

/// Exact.
inline float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }
inline float to_float(float value) { return value; }

/// Round to nearest, ties to even; NaN stays a (quiet) NaN, overflow becomes infinity. Subnormals are kept.
inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::kF32;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::kBf16;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::kF64;
};
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::kU8;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::kI32;
};
template <>
struct DtypeOf<std::uint32_t> {
  static constexpr Dtype value = Dtype::kU32;
};
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::kI64;
};
template <>
struct DtypeOf<std::uint64_t> {
  static constexpr Dtype value = Dtype::kU64;
};
template <class T>
inline constexpr Dtype kDtypeOf = DtypeOf<T>::value;

/// Bytes of one element.
std::size_t size_of(Dtype dtype);

/// "f32", "bf16", "f64", "u8", "i32", "u32", "i64" or "u64".
std::string_view name_of(Dtype dtype);

/// Largest relative error of one rounding to nearest: 2^-24 for f32, 2^-8 for bf16, 2^-53 for f64; 0 for integers.
double unit_roundoff(Dtype dtype);

}  // namespace flashbert
