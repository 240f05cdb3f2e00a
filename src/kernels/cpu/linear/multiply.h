#pragma once

#include "kernels/cpu/linear/common.h"
#include "kernels/cpu/rows/kernels.h"

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

/// What a thread does to a tile of C that it has just stored, while the tile is in cache. kernels: with either of the others.
struct TileEpilogue {
  const RowKernels* kernels = nullptr;
  Tensor gelu;              ///< gets gelu(C), of C's type and shape; may be C itself
  ConstTensor before_gelu;  ///< C is multiplied by gelu'(before_gelu)
};

/// Tensors of one call; weights = the packed or plain B.
struct MultiplyData {
  Tensor c;
  ConstTensor a, bias;
  const std::byte* weights = nullptr;
  TileEpilogue epilogue = {};
};

/// One shape cut into tiles, with the primitives that compute them. Cheap to make once the primitives exist.
/// Where a tile of A or C is not dense, not of the product's type or not a whole number of blocks, it goes through the thread's scratch
/// (oneDNN's fast kernels want dense rows; a strided C costs 10-15 % with its others). Of an A that is dense in whole, only the rows behind
/// the last whole block are copied, once for all threads: vocabulary-sized gradients would otherwise take megabytes a thread.
class MultiplyPlan {
 public:
  MultiplyPlan(const MultiplyShape& shape, ProductSet& products);
  /// kDense: rows back to back, in the product's type, of whole blocks.
  enum class Source { kDense, kAny };
  [[nodiscard]] Source source_of(const ConstTensor& a) const;
  [[nodiscard]] std::int64_t scratch_bytes(Source source, int threads) const;
  /// False where oneDNN reported an error. scratch: scratch_bytes(source_of(data.a), threads).
  [[nodiscard]] bool run(const MultiplyData& data, int threads, std::byte* scratch) const;

 private:
  struct Tile {
    std::int64_t row, rows, column, columns;
  };
  /// What one thread works with; tail: the copied last rows of a dense A.
  struct Worker {
    int thread = 0;
    LinearScratchView scratch;
    const std::byte* tail = nullptr;
  };
  [[nodiscard]] LinearScratch thread_scratch(Source source) const;
  [[nodiscard]] Tile last_row_tile() const;
  [[nodiscard]] bool run_tile(std::int64_t index, const MultiplyData& data, const Worker& worker) const;
  [[nodiscard]] const void* source(const Tile& tile, const MultiplyData& data, const Worker& worker) const;
  [[nodiscard]] const float* bias(const Tile& tile, const MultiplyData& data, const LinearScratchView& scratch) const;
  [[nodiscard]] const std::byte* weights(const Tile& tile, const MultiplyData& data) const;
  static void run_epilogue(const Tile& tile, const MultiplyData& data);
  [[nodiscard]] Dtype product_output() const { return shape_.path.dtype == Dtype::kBf16 ? shape_.output : Dtype::kF32; }

  MultiplyShape shape_;
  ProductTiles tiles_;
  TileProducts products_;
  LinearScratch scratch_;
};

}  // namespace flashbert::cpu
