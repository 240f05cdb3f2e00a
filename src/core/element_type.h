#pragma once

#include <cstdint>

// The names of element types without the functions of core/dtype.h: sources with instruction-set flags include this (tests/layers).
namespace flashbert {

/// Element types of tensors. Compute types are f32 and bf16; the rest hold indices, counters, random words and sums.
enum class Dtype : std::uint8_t { kF32, kBf16, kF64, kU8, kI32, kU32, kI64, kU64 };

}  // namespace flashbert
