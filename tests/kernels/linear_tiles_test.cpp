#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/cpu/cpu_context.h"
#include "kernels/cpu/linear/onednn.h"
#include "kernels/cpu/linear/pack.h"
#include "kernels/cpu/linear/tiles.h"

namespace flashbert::cpu {
namespace {

constexpr std::array<ProductExtents, 7> kExtents{{{1, 2, 1024, 2},
                                                  {31, 130, 70, 4},
                                                  {512, 128, 128, 2},
                                                  {544, 3072, 1024, 2},
                                                  {8192, 4096, 1024, 4},
                                                  {160, 30528, 1024, 2},
                                                  {700, 1024, 30528, 2}}};

TEST(LinearTiles, CoverEveryElementOnce) {
  for (const ProductExtents& extents : kExtents) {
    const ProductTiles tiles = choose_product_tiles(extents);
    for (const AxisTiles& axis : {tiles.rows, tiles.columns}) {
      std::int64_t next = 0;
      for (std::int64_t index = 0; index < axis.count(); ++index) {
        EXPECT_EQ(axis.begin(index), next);
        EXPECT_GT(axis.size(index), 0);
        next += axis.size(index);
      }
      EXPECT_EQ(next, axis.extent);
    }
  }
}

TEST(LinearTiles, StartOnWholeBlocks) {
  for (const ProductExtents& extents : kExtents) {
    const ProductTiles tiles = choose_product_tiles(extents);
    EXPECT_EQ(tiles.rows.tile % kRowBlock, 0);
    EXPECT_LE(tiles.rows.tile, kMaxRowTile);
    if (tiles.columns.count() > 1) {
      EXPECT_EQ(tiles.columns.tile % kColumnBlock, 0);
    }
  }
}

TEST(LinearTiles, AreTheSameForAllRowCountsOfABucket) {
  for (std::int64_t rows = 1; rows <= 2 * kMaxRowTile; ++rows) {
    const ProductTiles given = choose_product_tiles({rows, 1024, 512, 2});
    const ProductTiles bucket = choose_product_tiles({round_up(rows, kRowBlock), 1024, 512, 2});
    ASSERT_EQ(given.rows.tile, bucket.rows.tile) << rows;
    ASSERT_EQ(given.columns.tile, bucket.columns.tile) << rows;
    ASSERT_EQ(given.count(), bucket.count()) << rows;
  }
}

TEST(LinearTiles, NoRowsMakeNoTiles) { EXPECT_EQ(choose_product_tiles({0, 64, 64, 4}).count(), 0); }

template <class T>
std::vector<T> numbered(std::int64_t elements) {
  std::vector<T> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<float>(i % 251 + 1);  // exact in bf16
    if constexpr (std::is_same_v<T, bf16>) {
      values[i] = to_bf16(value);
    } else {
      values[i] = value;
    }
  }
  return values;
}

/// The place of B[d][c] in WeightLayout::kBlocked, written as its definition says.
std::size_t blocked_place(std::int64_t d, std::int64_t c, std::int64_t padded_depth, std::int64_t interleaved) {
  const std::int64_t block = c / kColumnBlock * kColumnBlock * padded_depth;
  const std::int64_t row = d / interleaved * interleaved * kColumnBlock;
  return static_cast<std::size_t>(block + row + c % kColumnBlock * interleaved + d % interleaved);
}

/// Packs the same B (depth, columns) from its rows and from its transpose and compares both with the definition.
template <class T>
void expect_packs_follow_the_layout(std::int64_t depth, std::int64_t columns) {
  constexpr std::int64_t interleaved = std::is_same_v<T, bf16> ? 2 : 1;
  const std::int64_t padded_depth = round_up(depth, kRowBlock);
  const std::int64_t padded_columns = round_up(columns, kColumnBlock);
  const std::vector<T> b = numbered<T>(depth * columns);
  std::vector<T> transposed(b.size());
  std::vector<T> want(static_cast<std::size_t>(padded_depth * padded_columns));
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const T value = b[static_cast<std::size_t>(d * columns + c)];
      transposed[static_cast<std::size_t>(c * depth + d)] = value;
      want[blocked_place(d, c, padded_depth, interleaved)] = value;
    }
  }
  std::vector<T> from_rows(want.size());
  for (std::int64_t d = 0; d < padded_depth; d += kRowBlock) {
    pack_rows({.to = from_rows.data() + d * kColumnBlock,
               .block_stride = padded_depth * kColumnBlock,
               .from = {b.data() + d * columns, columns, kDtypeOf<T>},
               .rows = std::min(kRowBlock, depth - d),
               .columns = columns});
  }
  EXPECT_TRUE(from_rows == want) << depth << " x " << columns;
  std::vector<T> from_transpose(want.size());
  for (std::int64_t c = 0; c < padded_columns; c += kColumnBlock) {
    pack_transposed({.to = from_transpose.data() + c * padded_depth,
                     .from = {transposed.data() + c * depth, depth, kDtypeOf<T>},
                     .columns = std::min(kColumnBlock, columns - c),
                     .depth = depth,
                     .padded_depth = padded_depth});
  }
  EXPECT_TRUE(from_transpose == want) << depth << " x " << columns;
}

TEST(LinearPack, BothWaysFollowTheLayout) {
  for (const auto& [depth, columns] : {std::pair{64, 128}, std::pair{33, 65}, std::pair{1, 1}, std::pair{95, 63}, std::pair{32, 200}}) {
    expect_packs_follow_the_layout<float>(depth, columns);
    expect_packs_follow_the_layout<bf16>(depth, columns);
  }
}

template <class To, class From>
void expect_transposed_with_sums(std::int64_t rows, std::int64_t columns) {
  const std::int64_t padded_rows = round_up(rows, kRowBlock);
  const std::int64_t padded_columns = round_up(columns, kRowBlock);
  const std::vector<From> from = numbered<From>(rows * columns);
  std::vector<To> to(static_cast<std::size_t>(padded_rows * padded_columns), To{});
  std::vector<float> sums(static_cast<std::size_t>(columns), 1.0F);
  transpose_block({.to = {to.data(), padded_rows, kDtypeOf<To>},
                   .from = {from.data(), columns, kDtypeOf<From>},
                   .rows = rows,
                   .columns = columns,
                   .padded_rows = padded_rows,
                   .padded_columns = padded_columns,
                   .column_sums = sums.data()});
  for (std::int64_t c = 0; c < padded_columns; ++c) {
    float sum = 1.0F;  // integers below 2^24: every order gives the same sum
    for (std::int64_t r = 0; r < padded_rows; ++r) {
      const bool inside = r < rows && c < columns;
      const float want = inside ? to_float(from[static_cast<std::size_t>(r * columns + c)]) : 0.0F;
      ASSERT_EQ(to_float(to[static_cast<std::size_t>(c * padded_rows + r)]), want) << r << ", " << c;
      sum += want;
    }
    if (c < columns) {
      ASSERT_EQ(sums[static_cast<std::size_t>(c)], sum) << c;
    }
  }
}

TEST(LinearPack, TransposesAndSumsColumns) {
  for (const auto& [rows, columns] : {std::pair{64, 32}, std::pair{1, 1}, std::pair{37, 50}, std::pair{512, 96}}) {
    expect_transposed_with_sums<float, float>(rows, columns);
    expect_transposed_with_sums<bf16, bf16>(rows, columns);
    expect_transposed_with_sums<float, bf16>(rows, columns);
  }
}

TEST(LinearProducts, RunOnPackedWeightsWhereTheProcessorHasAvx512) {
  const CpuContext context;
  if (context.isa() < Isa::kAvx512) GTEST_SKIP() << "instruction set " << name_of(context.isa()) << " uses plain layouts";
  const ProductSet products(context);
  EXPECT_TRUE(products.blocked(Dtype::kF32));
  EXPECT_EQ(products.blocked(Dtype::kBf16), context.has_bf16());
}

}  // namespace
}  // namespace flashbert::cpu
