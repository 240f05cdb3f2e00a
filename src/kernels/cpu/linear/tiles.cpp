#include "kernels/cpu/linear/tiles.h"

#include <algorithm>

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kSmallestRowTile = 64;
constexpr std::int64_t kTilesForBalance = 8;                              // enough for 2 to 8 threads to end together
constexpr std::int64_t kCachedWeightBytes = std::int64_t{16} << 20;       // weights that every row tile may stream again
constexpr std::int64_t kStagedColumns = 512;                              // 512 columns x depth 1024 in bf16: 1 MiB of weights
constexpr std::int64_t kWorthwhileOperations = std::int64_t{16'000'000};  // 70 us on one core: calling costs 1-2 % of it

std::int64_t choose_row_tile(const ProductExtents& extents) {
  std::int64_t tile = kSmallestRowTile;
  while (tile < kMaxRowTile && 2 * tile * extents.columns * extents.depth < kWorthwhileOperations &&
         extents.rows >= 2 * tile * kTilesForBalance) {
    tile *= 2;
  }
  return tile;
}

}  // namespace

ProductTiles choose_product_tiles(const ProductExtents& given) {
  ProductExtents extents = given;
  extents.rows = round_up(given.rows, kRowBlock);
  ProductTiles tiles{{given.rows, choose_row_tile(extents)}, {extents.columns, std::max<std::int64_t>(extents.columns, 1)}};
  const bool large = extents.columns * extents.depth * extents.element_bytes > kCachedWeightBytes;
  if (large) tiles.rows.tile = 2 * kSmallestRowTile;
  if (tiles.rows.count() >= kTilesForBalance && !large) return tiles;
  const std::int64_t wanted = ceil_div(2 * kTilesForBalance, std::max<std::int64_t>(tiles.rows.count(), 1));
  const std::int64_t even = round_up(ceil_div(extents.columns, wanted), kColumnBlock);
  // A tile that is too cheap costs more in calls than balance gains.
  const std::int64_t operations_per_column = 2 * std::max(std::min(tiles.rows.tile, extents.rows), kRowBlock) * extents.depth;
  const std::int64_t cheapest =
      round_up(ceil_div(kWorthwhileOperations / 4, std::max<std::int64_t>(operations_per_column, 1)), kColumnBlock);
  tiles.columns.tile = std::clamp(std::max(even, cheapest), kColumnBlock, kStagedColumns);
  if (!large && tiles.columns.tile >= extents.columns) tiles.columns.tile = std::max<std::int64_t>(extents.columns, 1);
  return tiles;
}

AxisTiles choose_gradient_tiles(std::int64_t rows) {
  if (rows >= 1024) return {rows, 128};
  return {rows, rows >= 256 ? 64 : 32};
}

}  // namespace flashbert::cpu
