#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/cpu/cpu_context.h"
#include "core/dtype.h"

namespace flashbert::cpu {

/// Of the library that is linked: "2.7.3".
std::string onednn_version();

/// How the right-hand side B (depth, columns) of a product lies in memory.
enum class WeightLayout {
  kBlocked,     ///< blocks of 64 columns; in each, depth rows (bf16: pairs of rows, interleaved) of 64: what the fast kernels read
  kRowMajor,    ///< B[d][c] at d * weight_stride + c
  kTransposed,  ///< B[d][c] at c * weight_stride + d
};

/// C (rows, columns) = A (rows, depth) B [+ bias] [+ C]; A and C dense row-major, sums in f32.
struct ProductShape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  Dtype input = Dtype::kF32;   ///< of A and B
  Dtype output = Dtype::kF32;  ///< of C
  WeightLayout layout = WeightLayout::kBlocked;
  std::int64_t weight_stride = 0;                                               ///< 0 for kBlocked
  bool bias = false;                                                            ///< (columns) f32
  bool add = false;                                                             ///< the old C is added before the one rounding
  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 misreads <=>
};

/// Addresses of one call. scratchpad: Product::scratchpad_bytes() bytes of the calling thread, 64-byte aligned.
struct ProductData {
  const void* a = nullptr;
  const void* b = nullptr;
  const float* bias = nullptr;
  void* c = nullptr;
  void* scratchpad = nullptr;
};

class ProductSet;

/// One oneDNN matmul primitive made for a single thread: how it sums never depends on who runs it.
class Product {
 public:
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  [[nodiscard]] std::int64_t scratchpad_bytes() const;
  /// Runs on the calling thread, which must be `thread` of a parallel region with omp_set_num_threads(1) in force. False when the
  /// library reports an error (exceptions may not leave a parallel region).
  [[nodiscard]] bool run(int thread, const ProductData& data) const;

 private:
  friend class ProductSet;
  struct State;
  explicit Product(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// All primitives of an Ops, made when first asked for, with the memory objects of every thread. The only code that knows
/// oneDNN's API (2.6 and 3.x).
/// oneDNN itself allocates inside dnnl_primitive_execute: 6 nodes of its argument map (264 bytes), 7 with a bias (296 bytes) in 2.6.3,
/// 8 and 9 in 3.2, all freed before it returns, so they come from malloc's thread cache and never reach the system. Neither version's
/// public interface has a way around it.
class ProductSet {
 public:
  /// Caps oneDNN's instruction set at the context's; throws EnvironmentError when the library is already running with another.
  explicit ProductSet(const CpuContext& context);
  ~ProductSet();
  ProductSet(const ProductSet&) = delete;
  ProductSet& operator=(const ProductSet&) = delete;
  /// Whether products of this type run on oneDNN's kernels for packed weights here.
  [[nodiscard]] bool blocked(Dtype input) const;
  /// Not thread-safe: call outside parallel regions.
  const Product& get(const ProductShape& shape);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::map<ProductShape, std::unique_ptr<Product>> products_;
  bool blocked_f32_ = false, blocked_bf16_ = false;
};

}  // namespace flashbert::cpu
