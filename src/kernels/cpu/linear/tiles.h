#pragma once

#include <cstdint>

#include "core/rounding.h"
#include "kernels/cpu/linear/blocks.h"

namespace flashbert::cpu {

/// A product (rows, depth) x (depth, columns) before it is cut.
struct ProductExtents {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t element_bytes = 4;  ///< of the right-hand side
};

/// One axis cut into equal tiles and a shorter last one.
struct AxisTiles {
  std::int64_t extent = 0, tile = 1;
  [[nodiscard]] std::int64_t count() const { return ceil_div(extent, tile); }
  [[nodiscard]] bool is_last(std::int64_t index) const { return index + 1 == count(); }
  [[nodiscard]] std::int64_t begin(std::int64_t index) const { return index * tile; }
  [[nodiscard]] std::int64_t size(std::int64_t index) const { return is_last(index) ? extent - begin(index) : tile; }
};

/// How a forward or input-gradient product is cut. Tile t covers row tile t % rows.count() and column tile t / rows.count(): the rows run
/// fastest, so that a column tile of the weights stays in cache.
struct ProductTiles {
  AxisTiles rows, columns;
  [[nodiscard]] std::int64_t count() const { return rows.count() * columns.count(); }
};

/// A function of the extents only, rows rounded up to whole blocks, and never of the thread count. Tiles of 64 rows and all columns write
/// their results in place and already run at 95 % of peak from packed weights; cheap rows get taller tiles, because calling a product costs
/// about a microsecond; few rows, or weights larger than a share of the last-level cache, are cut along the columns too, at the price of
/// copying the tile out.
ProductTiles choose_product_tiles(const ProductExtents& extents);

/// Rows of dW (N, K) that one tile owns over the whole sum.
AxisTiles choose_gradient_tiles(std::int64_t rows);

}  // namespace flashbert::cpu
