#include "kernels/cpu/linear_multiply.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace flashbert::cpu {

MultiplyPlan::MultiplyPlan(const MultiplyShape& shape, ProductSet& products)
    : shape_(shape),
      tiles_(choose_product_tiles(
          {.rows = shape.rows, .columns = shape.columns, .depth = shape.depth, .element_bytes = shape.path.element_bytes()})) {
  if (tiles_.count() == 0) return;
  const LinearPath& path = shape_.path;
  for (const bool last_row : {false, true}) {
    for (const bool last_column : {false, true}) {
      const std::int64_t rows = tiles_.rows.size(last_row ? tiles_.rows.count() - 1 : 0);
      const std::int64_t columns = tiles_.columns.size(last_column ? tiles_.columns.count() - 1 : 0);
      products_.of[last_row][last_column] = &products.get({.rows = round_up(rows, kRowBlock),
                                                           .columns = path.padded_columns(columns),
                                                           .depth = path.padded_depth(shape.depth),
                                                           .input = path.dtype,
                                                           .output = product_output(),
                                                           .layout = shape.layout,
                                                           .weight_stride = shape.weight_stride,
                                                           .bias = shape.bias,
                                                           .add = shape.add});
    }
  }
  const std::int64_t rows = round_up(tiles_.rows.size(0), kRowBlock);
  const std::int64_t columns = path.padded_columns(tiles_.columns.size(0));
  scratch_ = {.scratchpad = products_.scratchpad_bytes(),
              .a = rows * path.padded_depth(shape.depth) * path.element_bytes(),
              .c = rows * columns * static_cast<std::int64_t>(size_of(product_output())),
              .row = columns * static_cast<std::int64_t>(sizeof(float))};
}

bool MultiplyPlan::run(const MultiplyData& data, int threads, std::byte* scratch) const {
  if (tiles_.count() == 0) return true;
  std::atomic<bool> all_ran = true;
#pragma omp parallel num_threads(threads)
  {
    omp_set_num_threads(1);  // of this task only: oneDNN must not start threads of its own
    const int thread = omp_get_thread_num();
    const LinearScratchView view(scratch + scratch_.bytes() * thread, scratch_);
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < tiles_.count(); ++index) {
      if (!run_tile(index, thread, data, view)) all_ran = false;
    }
  }
  return all_ran;
}

const void* MultiplyPlan::source(const Tile& tile, const MultiplyData& data, const LinearScratchView& scratch) const {
  const std::int64_t padded_depth = shape_.path.padded_depth(shape_.depth);
  const ConstBlock from = block_of(data.a, tile.row, 0);
  const bool whole = padded_depth == shape_.depth && tile.rows % kRowBlock == 0;
  if (whole && from.stride == shape_.depth && from.dtype == shape_.path.dtype) return from.data;
  copy_block({.to = {scratch.a, padded_depth, shape_.path.dtype},
              .from = from,
              .rows = tile.rows,
              .columns = shape_.depth,
              .padded_rows = round_up(tile.rows, kRowBlock),
              .padded_columns = padded_depth});
  return scratch.a;
}

const float* MultiplyPlan::bias(const Tile& tile, const MultiplyData& data, const LinearScratchView& scratch) const {
  if (!shape_.bias) return nullptr;
  const float* const from = data.bias.data<float>() + tile.column;
  const std::int64_t padded = shape_.path.padded_columns(tile.columns);
  if (padded == tile.columns) return from;
  std::fill(std::copy_n(from, tile.columns, scratch.row), scratch.row + padded, 0.0F);
  return scratch.row;
}

const std::byte* MultiplyPlan::weights(const Tile& tile, const MultiplyData& data) const {
  std::int64_t elements = tile.column;
  if (shape_.layout == WeightLayout::kBlocked) elements *= shape_.path.padded_depth(shape_.depth);
  if (shape_.layout == WeightLayout::kTransposed) elements *= shape_.weight_stride;
  return data.weights + elements * shape_.path.element_bytes();
}

bool MultiplyPlan::run_tile(std::int64_t index, int thread, const MultiplyData& data, const LinearScratchView& scratch) const {
  const std::int64_t row_tile = index % tiles_.rows.count();
  const std::int64_t column_tile = index / tiles_.rows.count();
  const Tile tile{.row = tiles_.rows.begin(row_tile),
                  .rows = tiles_.rows.size(row_tile),
                  .column = tiles_.columns.begin(column_tile),
                  .columns = tiles_.columns.size(column_tile)};
  const std::int64_t padded_rows = round_up(tile.rows, kRowBlock);
  const std::int64_t padded_columns = shape_.path.padded_columns(tile.columns);
  const Block place = block_of(data.c, tile.row, tile.column);
  const bool whole = tile.rows == padded_rows && tile.columns == padded_columns;
  const bool in_place = whole && place.stride == padded_columns && place.dtype == product_output();
  const Block result = in_place ? place : Block{scratch.c, padded_columns, product_output()};
  if (!in_place && shape_.add) {
    copy_block({.to = result,
                .from = as_const(place),
                .rows = tile.rows,
                .columns = tile.columns,
                .padded_rows = padded_rows,
                .padded_columns = padded_columns});
  }
  const Product& product = products_.at(tiles_.rows.is_last(row_tile), tiles_.columns.is_last(column_tile));
  const bool ran = product.run(thread, {.a = source(tile, data, scratch),
                                        .b = weights(tile, data),
                                        .bias = bias(tile, data, scratch),
                                        .c = result.data,
                                        .scratchpad = scratch.scratchpad});
  if (!in_place) {
    copy_block({.to = place,
                .from = as_const(result),
                .rows = tile.rows,
                .columns = tile.columns,
                .padded_rows = tile.rows,
                .padded_columns = tile.columns});
  }
  return ran;
}

}  // namespace flashbert::cpu
