#include "kernels/cpu/linear/weight_gradient.h"

#include <omp.h>

#include <algorithm>
#include <atomic>

namespace flashbert::cpu {

WeightGradientPlan::WeightGradientPlan(const WeightGradientShape& shape, ProductSet& products)
    : shape_(shape), tiles_(choose_gradient_tiles(shape.rows)) {
  if (shape.rows == 0 || shape.columns == 0) return;
  const LinearPath& path = shape_.path;
  const std::int64_t columns = path.padded_columns(shape.columns);
  const std::int64_t rows = round_up(tiles_.size(0), kRowBlock);
  scratch_ = {.c = rows * columns * 4, .row = rows * 4};
  if (shape.tokens == 0) return;
  const AxisTiles blocks{shape.tokens, kGradientDepth};
  for (const bool last_row : {false, true}) {
    for (const bool last_block : {false, true}) {
      products_.of[last_row][last_block] = &products.get({.rows = round_up(tiles_.size(last_row ? tiles_.count() - 1 : 0), kRowBlock),
                                                          .columns = columns,
                                                          .depth = round_up(blocks.size(last_block ? blocks.count() - 1 : 0), kRowBlock),
                                                          .input = path.dtype,
                                                          .output = Dtype::kF32,
                                                          .layout = path.blocked ? WeightLayout::kBlocked : WeightLayout::kRowMajor,
                                                          .weight_stride = path.blocked ? 0 : columns,
                                                          .add = true});
    }
  }
  const std::int64_t depth = round_up(std::min(shape.tokens, kGradientDepth), kRowBlock);
  scratch_.scratchpad = products_.scratchpad_bytes();
  scratch_.a = rows * depth * path.element_bytes();
  shared_bytes_ = round_up(std::min(shape.tokens, kGradientChunk), kRowBlock) * columns * path.element_bytes();
}

bool WeightGradientPlan::run(const LinearWeightGradient& args, int threads, std::byte* scratch) const {
  if (shape_.rows == 0 || shape_.columns == 0) return true;
  std::atomic<bool> all_ran = true;
#pragma omp parallel num_threads(threads)
  {
    omp_set_num_threads(1);  // of this task only: oneDNN must not start threads of its own
    const int thread = omp_get_thread_num();
    const LinearScratchView view(scratch + shared_bytes() + scratch_.bytes() * thread, scratch_);
    Chunk chunk{.begin = 0, .rows = 0, .packed = scratch};
    do {
      chunk.rows = std::min(kGradientChunk, shape_.tokens - chunk.begin);
#pragma omp for schedule(static)
      for (std::int64_t group = 0; group < ceil_div(chunk.rows, kRowBlock); ++group) pack(group, args, chunk);
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t tile = 0; tile < tiles_.count(); ++tile) {
        if (!run_tile(tile, thread, args, chunk, view)) all_ran = false;
      }
      chunk.begin += chunk.rows;
    } while (chunk.begin < shape_.tokens);
  }
  return all_ran;
}

std::byte* WeightGradientPlan::packed_block(const Chunk& chunk, std::int64_t block) const {
  return chunk.packed + block * kGradientDepth * shape_.path.padded_columns(shape_.columns) * shape_.path.element_bytes();
}

/// Packs rows [32 group, 32 group + 32) of the chunk.
void WeightGradientPlan::pack(std::int64_t group, const LinearWeightGradient& args, const Chunk& chunk) const {
  const LinearPath& path = shape_.path;
  const std::int64_t row = group * kRowBlock;
  const std::int64_t block = row / kGradientDepth;
  const std::int64_t row_in_block = row - block * kGradientDepth;
  const std::int64_t depth = round_up(std::min(kGradientDepth, chunk.rows - block * kGradientDepth), kRowBlock);
  const std::int64_t rows = std::min(kRowBlock, chunk.rows - row);
  const ConstBlock from = block_of(args.x, chunk.begin + row, 0);
  if (path.blocked) {
    pack_rows({.to = packed_block(chunk, block) + row_in_block * kColumnBlock * path.element_bytes(),
               .block_stride = depth * kColumnBlock,
               .from = from,
               .rows = rows,
               .columns = shape_.columns});
    return;
  }
  copy_block({.to = {packed_block(chunk, block) + row_in_block * shape_.columns * path.element_bytes(), shape_.columns, path.dtype},
              .from = from,
              .rows = rows,
              .columns = shape_.columns,
              .padded_rows = kRowBlock,
              .padded_columns = shape_.columns});
}

/// Adds the chunk's products to one band of dW.
bool WeightGradientPlan::run_tile(std::int64_t tile, int thread, const LinearWeightGradient& args, const Chunk& chunk,
                                  const LinearScratchView& scratch) const {
  const std::int64_t row = tiles_.begin(tile);
  const std::int64_t rows = tiles_.size(tile);
  const std::int64_t padded_rows = round_up(rows, kRowBlock);
  const std::int64_t padded_columns = shape_.path.padded_columns(shape_.columns);
  const Block place = block_of(args.dweight, row, 0);
  const bool in_place = place.stride == padded_columns && rows == padded_rows;
  const Block result = in_place ? place : Block{scratch.c, padded_columns, Dtype::kF32};
  const bool from_zero = chunk.begin == 0 && args.accumulate == Accumulate::kOverwrite;
  if (from_zero && args.dbias) std::fill_n(args.dbias.data<float>() + row, rows, 0.0F);
  if (from_zero) {
    std::fill_n(static_cast<float*>(result.data), padded_rows * padded_columns, 0.0F);
  } else if (!in_place) {
    copy_block({.to = result,
                .from = as_const(place),
                .rows = rows,
                .columns = shape_.columns,
                .padded_rows = padded_rows,
                .padded_columns = padded_columns});
  }
  const bool ran = accumulate(tile, thread, args, chunk, result.data, scratch);
  if (!in_place) {
    copy_block({.to = place,
                .from = as_const(result),
                .rows = rows,
                .columns = shape_.columns,
                .padded_rows = rows,
                .padded_columns = shape_.columns});
  }
  return ran;
}

bool WeightGradientPlan::accumulate(std::int64_t tile, int thread, const LinearWeightGradient& args, const Chunk& chunk, void* c,
                                    const LinearScratchView& scratch) const {
  const std::int64_t row = tiles_.begin(tile);
  const std::int64_t rows = tiles_.size(tile);
  bool ran = true;
  for (std::int64_t block = 0; block * kGradientDepth < chunk.rows; ++block) {
    const std::int64_t token = chunk.begin + block * kGradientDepth;
    const std::int64_t depth = std::min(kGradientDepth, shape_.tokens - token);
    std::fill_n(scratch.row, rows, 0.0F);
    transpose_block({.to = {scratch.a, round_up(depth, kRowBlock), shape_.path.dtype},
                     .from = block_of(args.dy, token, row),
                     .rows = depth,
                     .columns = rows,
                     .padded_rows = round_up(depth, kRowBlock),
                     .padded_columns = round_up(rows, kRowBlock),
                     .column_sums = args.dbias ? scratch.row : nullptr});
    const Product& product = products_.at(tiles_.is_last(tile), token + depth == shape_.tokens);
    ran &= product.run(thread, {.a = scratch.a, .b = packed_block(chunk, block), .c = c, .scratchpad = scratch.scratchpad});
    if (!args.dbias) continue;
    float* const dbias = args.dbias.data<float>() + row;
    for (std::int64_t n = 0; n < rows; ++n) dbias[n] += scratch.row[n];
  }
  return ran;
}

}  // namespace flashbert::cpu
