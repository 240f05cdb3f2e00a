#pragma once

#include "kernels/cpu/linear_common.h"

namespace flashbert::cpu {

/// C (rows, columns) = A (rows, depth) B [+ bias] [+ C]: a forward product (B = W^T) or an input gradient (B = W), without addresses.
struct MultiplyShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  LinearPath path;
  Dtype output = Dtype::kF32;  ///< of C
  WeightLayout layout = WeightLayout::kBlocked;
  std::int64_t weight_stride = 0;
  bool bias = false, add = false;
};

/// Tensors of one call; weights = the packed or plain B.
struct MultiplyData {
  Tensor c;
  ConstTensor a, bias;
  const std::byte* weights = nullptr;
};

/// One shape cut into tiles, with the primitives that compute them. Cheap to make once the primitives exist.
/// Where a tile of A or C is not dense, not of the product's type or not a whole number of blocks, it goes through the thread's scratch
/// (oneDNN's fast kernels want dense rows; a strided C costs 10-15 % with its others).
class MultiplyPlan {
 public:
  MultiplyPlan(const MultiplyShape& shape, ProductSet& products);
  [[nodiscard]] const LinearScratch& thread_scratch() const { return scratch_; }
  /// False where oneDNN reported an error. scratch: threads x thread_scratch().bytes().
  [[nodiscard]] bool run(const MultiplyData& data, int threads, std::byte* scratch) const;

 private:
  struct Tile {
    std::int64_t row, rows, column, columns;
  };
  [[nodiscard]] bool run_tile(std::int64_t index, int thread, const MultiplyData& data, const LinearScratchView& scratch) const;
  [[nodiscard]] const void* source(const Tile& tile, const MultiplyData& data, const LinearScratchView& scratch) const;
  [[nodiscard]] const float* bias(const Tile& tile, const MultiplyData& data, const LinearScratchView& scratch) const;
  [[nodiscard]] const std::byte* weights(const Tile& tile, const MultiplyData& data) const;
  [[nodiscard]] Dtype product_output() const { return shape_.path.dtype == Dtype::kBf16 ? shape_.output : Dtype::kF32; }

  MultiplyShape shape_;
  ProductTiles tiles_;
  TileProducts products_;
  LinearScratch scratch_;
};

}  // namespace flashbert::cpu
