#pragma once

#include <cstdint>

#include "core/element_type.h"

// Plain structs and declarations: pack_avx2.cpp has instruction-set flags (tests/layers).
namespace flashbert::cpu {

/// A block of a matrix in memory; stride = elements from row to row.
struct ConstBlock {
  const void* data = nullptr;
  std::int64_t stride = 0;
  Dtype dtype = Dtype::kF32;
};
struct Block {
  void* data = nullptr;
  std::int64_t stride = 0;
  Dtype dtype = Dtype::kF32;
};

/// to[r][c] = from[r][c] (converted, f32 and bf16) for r < rows, c < columns; zero in the padding up to padded_rows, padded_columns.
struct CopyBlock {
  Block to;
  ConstBlock from;
  std::int64_t rows = 0, columns = 0;
  std::int64_t padded_rows = 0, padded_columns = 0;
};
void copy_block(const CopyBlock& args);

/// Packs kRowBlock rows of B (depth, columns), row-major, into WeightLayout::kBlocked: to points at these rows in the first block of
/// 64 columns, the next block of columns lies block_stride elements further. Rows from `rows` on and columns from `columns` on are zero.
struct PackRows {
  void* to = nullptr;
  std::int64_t block_stride = 0;
  ConstBlock from;
  std::int64_t rows = 0, columns = 0;
};
void pack_rows(const PackRows& args);

/// Packs one block of 64 columns of B = W^T into WeightLayout::kBlocked: from points at the block's first row of W (columns, depth).
/// Depth is padded to padded_depth (even), missing columns are zero.
struct PackTransposed {
  void* to = nullptr;
  ConstBlock from;
  std::int64_t columns = 0;  ///< rows of W in this block, at most 64
  std::int64_t depth = 0, padded_depth = 0;
};
void pack_transposed(const PackTransposed& args);

/// to[c][r] = from[r][c], converted where the types differ; zero in the padding (padded_rows, padded_columns: multiples of 32).
/// column_sums (columns) f32, where present, get += the sum of each column, rows in order.
struct TransposeBlock {
  Block to;
  ConstBlock from;
  std::int64_t rows = 0, columns = 0;
  std::int64_t padded_rows = 0, padded_columns = 0;
  float* column_sums = nullptr;
};
void transpose_block(const TransposeBlock& args);

/// sums[c] += the sum of column c of a block (rows, columns), rows in order.
void add_column_sums(float* sums, const ConstBlock& from, std::int64_t rows, std::int64_t columns);

}  // namespace flashbert::cpu
