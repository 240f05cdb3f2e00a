#pragma once

#include <cstdint>

// Constants only: sources with instruction-set flags include this (tests/layers).
namespace flashbert::cpu {

/// Columns of one block of a packed right-hand side; packed widths are padded to a multiple.
inline constexpr std::int64_t kColumnBlock = 64;
/// Rows of a left-hand side and depths are padded to a multiple (with zeros), so that few different products exist.
inline constexpr std::int64_t kRowBlock = 32;
/// Rows of T that one product of a weight gradient sums; blocks are added in order.
inline constexpr std::int64_t kGradientDepth = 512;
/// Rows of x that are packed at once for a weight gradient: bounds the scratch, a multiple of kGradientDepth.
inline constexpr std::int64_t kGradientChunk = 2048;
/// Most rows in a tile of a forward or input-gradient product.
inline constexpr std::int64_t kMaxRowTile = 256;

}  // namespace flashbert::cpu
