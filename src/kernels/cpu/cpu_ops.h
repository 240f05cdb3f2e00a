#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/cpu/cpu_context.h"
#include "kernels/ops.h"

namespace flashbert::cpu {

class Linear;  // cpu/linear.h: products by oneDNN

/// The CPU backend. Each family of do_* functions lives in the file of its name (cpu/attention.cpp, cpu/layer_norm.cpp, ...); what
/// depends on the instruction set is entered through a table of function pointers chosen once from the context.
class CpuOps final : public Ops {
 public:
  explicit CpuOps(CpuContext& context);
  ~CpuOps() override;
  [[nodiscard]] CpuContext& context() const { return context_; }
  [[nodiscard]] std::int64_t workspace_bytes(const OpsPlan& plan) const override;
  void prepare(const OpsPlan& plan, Tensor workspace) override;
  [[nodiscard]] std::int64_t linear_pack_bytes(const LinearShape& shape) const override;

 private:
  void do_fill_zero(Tensor tensor) override;
  void do_linear_pack(const LinearPack& args) override;
  void do_linear_forward(const LinearForward& args) override;
  void do_linear_input_gradient(const LinearInputGradient& args) override;
  void do_linear_weight_gradient(const LinearWeightGradient& args) override;
  void do_attention_forward(const AttentionForward& args) override;
  void do_attention_backward(const AttentionBackward& args) override;
  void do_dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args) override;
  void do_dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args) override;
  void do_embeddings_forward(const EmbeddingsForward& args) override;
  void do_embeddings_backward(const EmbeddingsBackward& args) override;
  void do_embedding_gradient(const EmbeddingGradient& args) override;
  void do_gelu_forward(const GeluForward& args) override;
  void do_gelu_backward(const GeluBackward& args) override;
  void do_tanh_forward(const TanhForward& args) override;
  void do_tanh_backward(const TanhBackward& args) override;
  void do_gather_rows(const GatherRows& args) override;
  void do_scatter_add_rows(const ScatterAddRows& args) override;
  void do_cast(const Cast& args) override;
  void do_scaled_copy(const ScaledCopy& args) override;
  void do_softmax_cross_entropy(const SoftmaxCrossEntropy& args) override;
  void do_checksum(const Checksum& args) override;
  void do_global_norm(const GlobalNorm& args) override;
  void do_lamb_update(const LambUpdate& args) override;
  void do_add_quotients(const AddQuotients& args) override;
  void do_hold_update(const HoldUpdate& args) override;

  /// Scratch of at least this many bytes, 256-byte aligned, valid until the next call of scratch(): a slice of the bound workspace
  /// (BrokenPromise naming the op where that is too small), else an own buffer that grows (tests and tools without a plan).
  std::byte* scratch(const char* op, std::int64_t bytes);

  CpuContext& context_;
  std::unique_ptr<Linear> linear_;
  Tensor workspace_;  ///< what is left of it after linear_'s part
  Buffer own_scratch_;
};

// Bytes of scratch that each family needs for shapes within the plan; workspace_bytes() books the largest.
std::int64_t attention_scratch_bytes(const OpsPlan& plan, const CpuContext& context);
std::int64_t layer_norm_scratch_bytes(const OpsPlan& plan, const CpuContext& context);
std::int64_t embeddings_scratch_bytes(const OpsPlan& plan, const CpuContext& context);
std::int64_t cross_entropy_scratch_bytes(const OpsPlan& plan, const CpuContext& context);
std::int64_t optimizer_scratch_bytes(const OpsPlan& plan, const CpuContext& context);

}  // namespace flashbert::cpu
