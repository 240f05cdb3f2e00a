#pragma once

#include <cstdint>
#include <memory>

#include "core/cpu/cpu_context.h"
#include "kernels/ops.h"

namespace flashbert::cpu {

/// Matrix products by oneDNN (2.6 and 3.x), cut into fixed tiles: which tile a thread computes never changes how it is computed, so
/// results are bit-equal for any thread count. Everything that knows oneDNN's API is in onednn.cpp, the forward and input-gradient
/// tiles are in multiply.cpp, those of weight gradients in weight_gradient.cpp.
/// Shapes inside a prepared plan (f32 bias present in forward, rows a multiple of 32 or not) make no primitive and no buffer, and our
/// code allocates nothing; oneDNN allocates inside each execution, see onednn.h. Others get both at first use.
class Linear {
 public:
  explicit Linear(CpuContext& context);
  ~Linear();
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;
  /// Of scratchpads and copies for all threads. Makes the primitives of the plan, to ask them, and keeps them.
  [[nodiscard]] std::int64_t workspace_bytes(const OpsPlan& plan) const;
  /// workspace: (workspace_bytes(plan)) u8 or more.
  void prepare(const OpsPlan& plan, Tensor workspace);
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
