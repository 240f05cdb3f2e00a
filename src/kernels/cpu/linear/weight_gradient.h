#pragma once

#include "kernels/args/linear.h"
#include "kernels/cpu/linear/common.h"

namespace flashbert::cpu {

/// dW (rows, columns) += dy^T x over the tokens.
struct WeightGradientShape {
  std::int64_t tokens = 0, rows = 0, columns = 0;
  LinearPath path;
};

/// Cuts and primitives of a weight gradient. A tile is a band of rows of dW over the whole sum. x is packed for all threads, chunk by
/// chunk; each piece of dy is transposed once, by the owner of its band, who sums its columns on the way (dbias). oneDNN's own handling of
/// a transposed A ran at 75-85 % of peak, from packed x and transposed dy it runs at 85-98 %.
class WeightGradientPlan {
 public:
  WeightGradientPlan(const WeightGradientShape& shape, ProductSet& products);
  [[nodiscard]] const LinearScratch& thread_scratch() const { return scratch_; }
  [[nodiscard]] std::int64_t shared_bytes() const { return scratch_aligned(shared_bytes_); }
  /// False where oneDNN reported an error. scratch: shared_bytes(), then threads x thread_scratch().bytes().
  [[nodiscard]] bool run(const LinearWeightGradient& args, int threads, std::byte* scratch) const;

 private:
  /// Rows of x that are packed at once.
  struct Chunk {
    std::int64_t begin, rows;
    std::byte* packed;
  };
  void pack(std::int64_t group, const LinearWeightGradient& args, const Chunk& chunk) const;
  [[nodiscard]] bool run_tile(std::int64_t tile, int thread, const LinearWeightGradient& args, const Chunk& chunk,
                              const LinearScratchView& scratch) const;
  [[nodiscard]] bool accumulate(std::int64_t tile, int thread, const LinearWeightGradient& args, const Chunk& chunk, void* c,
                                const LinearScratchView& scratch) const;
  [[nodiscard]] std::byte* packed_block(const Chunk& chunk, std::int64_t block) const;

  WeightGradientShape shape_;
  AxisTiles tiles_;
  TileProducts products_;  // last column = the last, shorter block of tokens
  LinearScratch scratch_;
  std::int64_t shared_bytes_ = 0;
};

}  // namespace flashbert::cpu
