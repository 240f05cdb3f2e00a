#include "kernels/cpu/linear/multiply.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>

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

namespace {

struct TailCopy {
  std::byte* to = nullptr;
  ConstBlock from;
  std::int64_t row_bytes = 0, rows = 0, padded_rows = 0;
};

/// By all threads of the team together; all rows are there when it returns.
void copy_tail(const TailCopy& copy) {
  const auto* const from = static_cast<const std::byte*>(copy.from.data);
#pragma omp for schedule(static)
  for (std::int64_t row = 0; row < copy.padded_rows; ++row) {
    if (row < copy.rows) {
      std::memcpy(copy.to + row * copy.row_bytes, from + row * copy.row_bytes, static_cast<std::size_t>(copy.row_bytes));
    } else {
      std::memset(copy.to + row * copy.row_bytes, 0, static_cast<std::size_t>(copy.row_bytes));
    }
  }
}

}  // namespace

MultiplyPlan::Source MultiplyPlan::source_of(const ConstTensor& a) const {
  const bool dense =
      a.row_stride() == shape_.depth && a.dtype() == shape_.path.dtype && shape_.path.padded_depth(shape_.depth) == shape_.depth;
  return dense ? Source::kDense : Source::kAny;
}

LinearScratch MultiplyPlan::thread_scratch(Source source) const {
  LinearScratch sizes = scratch_;
  if (source == Source::kDense) sizes.a = 0;
  return sizes;
}

std::int64_t MultiplyPlan::scratch_bytes(Source source, int threads) const {
  return thread_scratch(source).bytes() * threads + (source == Source::kDense ? scratch_aligned(scratch_.a) : 0);
}

MultiplyPlan::Tile MultiplyPlan::last_row_tile() const {
  const std::int64_t last = tiles_.rows.count() - 1;
  return {.row = tiles_.rows.begin(last), .rows = tiles_.rows.size(last), .column = 0, .columns = 0};
}

bool MultiplyPlan::run(const MultiplyData& data, int threads, std::byte* scratch) const {
  if (tiles_.count() == 0) return true;
  const Source kind = source_of(data.a);
  const LinearScratch sizes = thread_scratch(kind);
  const Tile last = last_row_tile();
  const std::int64_t copied = kind == Source::kDense && last.rows % kRowBlock != 0 ? round_up(last.rows, kRowBlock) : 0;
  const std::int64_t row_bytes = shape_.depth * shape_.path.element_bytes();
  std::byte* const tail = scratch + sizes.bytes() * threads;
  std::atomic<bool> all_ran = true;
#pragma omp parallel num_threads(threads)
  {
    omp_set_num_threads(1);  // of this task only: oneDNN must not start threads of its own
    if (copied > 0)
      copy_tail({.to = tail, .from = block_of(data.a, last.row, 0), .row_bytes = row_bytes, .rows = last.rows, .padded_rows = copied});
    const int thread = omp_get_thread_num();
    const Worker worker{
        .thread = thread, .scratch = LinearScratchView(scratch + sizes.bytes() * thread, sizes), .tail = copied > 0 ? tail : nullptr};
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t index = 0; index < tiles_.count(); ++index) {
      if (!run_tile(index, data, worker)) all_ran = false;
    }
  }
  return all_ran;
}

const void* MultiplyPlan::source(const Tile& tile, const MultiplyData& data, const Worker& worker) const {
  const ConstBlock from = block_of(data.a, tile.row, 0);
  if (source_of(data.a) == Source::kDense) {
    return tile.rows % kRowBlock == 0 ? from.data : static_cast<const void*>(worker.tail);
  }
  const std::int64_t padded_depth = shape_.path.padded_depth(shape_.depth);
  copy_block({.to = {worker.scratch.a, padded_depth, shape_.path.dtype},
              .from = from,
              .rows = tile.rows,
              .columns = shape_.depth,
              .padded_rows = round_up(tile.rows, kRowBlock),
              .padded_columns = padded_depth});
  return worker.scratch.a;
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

void MultiplyPlan::run_epilogue(const Tile& tile, const MultiplyData& data) {
  const TileEpilogue& epilogue = data.epilogue;
  if (!epilogue.gelu && !epilogue.before_gelu) return;
  const std::size_t type = data.c.dtype() == Dtype::kBf16 ? 1 : 0;
  for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
    void* const c = block_of(data.c, row, tile.column).data;
    if (epilogue.gelu) epilogue.kernels->gelu_forward[type](block_of(epilogue.gelu, row, tile.column).data, c, tile.columns);
    if (epilogue.before_gelu) {
      epilogue.kernels->gelu_backward[type](c, c, block_of(epilogue.before_gelu, row, tile.column).data, tile.columns);
    }
  }
}

bool MultiplyPlan::run_tile(std::int64_t index, const MultiplyData& data, const Worker& worker) const {
  const LinearScratchView& scratch = worker.scratch;
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
  const bool ran = product.run(worker.thread, {.a = source(tile, data, worker),
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
  run_epilogue(tile, data);
  return ran;
}

}  // namespace flashbert::cpu
