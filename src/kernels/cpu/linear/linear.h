#pragma once

#include <cstdint>
#include <memory>

#include "core/cpu/cpu_context.h"
#include "kernels/ops.h"

namespace flashbert::cpu {

/// Matrix products by oneDNN (2.6 and 3.x), cut into fixed tiles: which tile a thread computes never changes how it is computed, so
/// results are bit-equal for any thread count. Everything that knows oneDNN's API is in linear_onednn.cpp, the forward and input-gradient
/// tiles are in linear_multiply.cpp, those of weight gradients in linear_weight_gradient.cpp.
/// Shapes inside a prepared plan (f32 bias present in forward, rows a multiple of 32 or not) make no primitive and no buffer, and our
/// code allocates nothing; oneDNN allocates inside each execution, see linear_onednn.h. Others get both at first use.
class Linear {
 public:
  explicit Linear(CpuContext& context);
  ~Linear();
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;
  /// Makes the primitives of the shapes; returns the bytes of scratchpads for all threads.
  std::int64_t prepare(const OpsPlan& plan);
  void bind_workspace(Tensor workspace);
  [[nodiscard]] std::int64_t pack_bytes(const LinearShape& shape) const;
  void pack(const LinearPack& args);
  void forward(const LinearForward& args);
  void input_gradient(const LinearInputGradient& args);
  void weight_gradient(const LinearWeightGradient& args);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace flashbert::cpu
