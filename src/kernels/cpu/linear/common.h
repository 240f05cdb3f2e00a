#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "core/rounding.h"
#include "core/tensor.h"
#include "kernels/cpu/linear/onednn.h"
#include "kernels/cpu/linear/pack.h"
#include "kernels/cpu/linear/tiles.h"

namespace flashbert::cpu {

/// How products of one weight dtype run on this processor.
struct LinearPath {
  Dtype dtype = Dtype::kF32;  ///< that oneDNN multiplies: f32 for bf16 weights where the processor has no bf16
  bool blocked = false;       ///< packed weights and padded extents; else plain ones
  [[nodiscard]] std::int64_t element_bytes() const { return static_cast<std::int64_t>(size_of(dtype)); }
  [[nodiscard]] std::int64_t padded_depth(std::int64_t depth) const { return blocked ? round_up(depth, kRowBlock) : depth; }
  [[nodiscard]] std::int64_t padded_columns(std::int64_t columns) const { return blocked ? round_up(columns, kColumnBlock) : columns; }
  [[nodiscard]] std::int64_t packed_bytes(std::int64_t depth, std::int64_t columns) const {
    return padded_depth(depth) * padded_columns(columns) * element_bytes();
  }
};

constexpr std::int64_t scratch_aligned(std::int64_t bytes) { return round_up(bytes, 256); }

/// Bytes that each thread needs for a product: oneDNN's scratchpad, a dense tile of A, a dense tile of C, a row of f32 (padded bias or
/// column sums).
struct LinearScratch {
  std::int64_t scratchpad = 0, a = 0, c = 0, row = 0;
  [[nodiscard]] std::int64_t bytes() const {
    return scratch_aligned(scratchpad) + scratch_aligned(a) + scratch_aligned(c) + scratch_aligned(row);
  }
};

struct LinearScratchView {
  std::byte *scratchpad, *a, *c;
  float* row;
  LinearScratchView(std::byte* base, const LinearScratch& sizes)
      : scratchpad(base),
        a(scratchpad + scratch_aligned(sizes.scratchpad)),
        c(a + scratch_aligned(sizes.a)),
        row(reinterpret_cast<float*>(c + scratch_aligned(sizes.c))) {}
};

/// The four products of a grid of tiles: whole or last along each of its two axes.
struct TileProducts {
  std::array<std::array<const Product*, 2>, 2> of{};
  [[nodiscard]] const Product& at(bool last_row, bool last_column) const {
    return *of[static_cast<std::size_t>(last_row)][static_cast<std::size_t>(last_column)];
  }
  [[nodiscard]] std::int64_t scratchpad_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& row : of) {
      for (const Product* product : row) bytes = std::max(bytes, product->scratchpad_bytes());
    }
    return bytes;
  }
};

/// The block that starts at an element of a rank-2 tensor.
inline ConstBlock block_of(ConstTensor tensor, std::int64_t row, std::int64_t column) {
  const auto* const data = static_cast<const std::byte*>(tensor.raw());
  return {data + (row * tensor.row_stride() + column) * static_cast<std::int64_t>(size_of(tensor.dtype())), tensor.row_stride(),
          tensor.dtype()};
}
inline Block block_of(Tensor tensor, std::int64_t row, std::int64_t column) {
  auto* const data = static_cast<std::byte*>(tensor.raw());
  return {data + (row * tensor.row_stride() + column) * static_cast<std::int64_t>(size_of(tensor.dtype())), tensor.row_stride(),
          tensor.dtype()};
}
inline ConstBlock as_const(const Block& block) { return {block.data, block.stride, block.dtype}; }

}  // namespace flashbert::cpu
