#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/context.h"
#include "kernels/args/attention.h"
#include "kernels/args/checksum.h"
#include "kernels/args/cross_entropy.h"
#include "kernels/args/elementwise.h"
#include "kernels/args/embeddings.h"
#include "kernels/args/layer_norm.h"
#include "kernels/args/linear.h"
#include "kernels/args/optimizer.h"
#include "kernels/args/step_record.h"

namespace flashbert {

/// One linear layer of the model, for preparation at start-up: y (rows, out) = x (rows, in) W^T + bias.
struct LinearShape {
  std::int64_t in = 0, out = 0;
  std::int64_t max_rows = 0;
  Dtype compute = Dtype::kF32;  ///< of x, W, y and their gradients
  bool training = true;         ///< both gradients are wanted too
};

/// The largest shapes a run will use; everything an op needs beyond its arguments is made from this before the first step.
/// An empty plan needs nothing.
struct OpsPlan {
  std::vector<LinearShape> linears;
  bool training = true;  ///< backward ops and the optimizer are called too
  std::int64_t max_tokens = 0;
  std::int64_t max_seq_len = 0;  ///< tokens
  std::int64_t head_dim = 0;
  std::int64_t hidden = 0;
  std::int64_t max_logit_rows = 0;               ///< of a cross-entropy
  std::vector<std::int64_t> parameter_elements;  ///< of each parameter that is trained
};

/// The operations of BERT training: one contract (args/*.h), validated here once, and a private virtual per backend.
/// Ops never wait: a call enqueues on the context's stream (on the CPU it runs at once) and allocates nothing for shapes inside the
/// plan. Without a plan (tests, tools) ops still work, and allocate at first use.
class Ops {
 public:
  explicit Ops(Context& context) : context_(context) {}
  virtual ~Ops() = default;
  Ops(const Ops&) = delete;
  Ops& operator=(const Ops&) = delete;
  [[nodiscard]] Context& context() const { return context_; }

  /// The least row count at or above `rows` that this backend is prepared for: every batch is filled up to it (tails: args/common.h).
  [[nodiscard]] virtual std::int64_t row_count(std::int64_t rows) const { return bucket_rows(rows); }

  /// Bytes of workspace to book for the plan. Changes nothing that a result depends on; a backend may keep what it made to find out.
  [[nodiscard]] virtual std::int64_t workspace_bytes(const OpsPlan& plan) const = 0;
  /// Once, before the first step: makes all that the plan needs. workspace: u8, contiguous, at least workspace_bytes(plan), else
  /// ShapeError; it must stay. From then on a call that the plan does not cover throws WorkspaceTooSmall (kernels/workspace.h).
  virtual void prepare(const OpsPlan& plan, Tensor workspace) = 0;

  /// Contiguous tensors only. (Copies are the context's.)
  void fill_zero(Tensor tensor);

  /// Bytes of LinearWeights::pack for W (out, in); 0 where the backend multiplies from W itself.
  [[nodiscard]] virtual std::int64_t linear_pack_bytes(const LinearShape& shape) const = 0;
  void linear_pack(const LinearPack& args);
  void linear_forward(const LinearForward& args);
  void linear_input_gradient(const LinearInputGradient& args);
  void linear_weight_gradient(const LinearWeightGradient& args);

  void attention_forward(const AttentionForward& args);
  void attention_backward(const AttentionBackward& args);

  void dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args);
  void dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args);

  void embeddings_forward(const EmbeddingsForward& args);
  void embeddings_backward(const EmbeddingsBackward& args);
  void embedding_gradient(const EmbeddingGradient& args);

  void gelu_forward(const GeluForward& args);
  void gelu_backward(const GeluBackward& args);
  void tanh_forward(const TanhForward& args);
  void tanh_backward(const TanhBackward& args);
  void gather_rows(const GatherRows& args);
  void scatter_add_rows(const ScatterAddRows& args);
  void cast(const Cast& args);
  void scaled_copy(const ScaledCopy& args);

  void softmax_cross_entropy(const SoftmaxCrossEntropy& args);

  void checksum(const Checksum& args);
  void global_norm(const GlobalNorm& args);
  void lamb_update(const LambUpdate& args);

  void add_quotients(const AddQuotients& args);
  void hold_update(const HoldUpdate& args);

 private:
  virtual void do_fill_zero(Tensor tensor) = 0;
  virtual void do_linear_pack(const LinearPack& args) = 0;
  virtual void do_linear_forward(const LinearForward& args) = 0;
  virtual void do_linear_input_gradient(const LinearInputGradient& args) = 0;
  virtual void do_linear_weight_gradient(const LinearWeightGradient& args) = 0;
  virtual void do_attention_forward(const AttentionForward& args) = 0;
  virtual void do_attention_backward(const AttentionBackward& args) = 0;
  virtual void do_dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args) = 0;
  virtual void do_dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args) = 0;
  virtual void do_embeddings_forward(const EmbeddingsForward& args) = 0;
  virtual void do_embeddings_backward(const EmbeddingsBackward& args) = 0;
  virtual void do_embedding_gradient(const EmbeddingGradient& args) = 0;
  virtual void do_gelu_forward(const GeluForward& args) = 0;
  virtual void do_gelu_backward(const GeluBackward& args) = 0;
  virtual void do_tanh_forward(const TanhForward& args) = 0;
  virtual void do_tanh_backward(const TanhBackward& args) = 0;
  virtual void do_gather_rows(const GatherRows& args) = 0;
  virtual void do_scatter_add_rows(const ScatterAddRows& args) = 0;
  virtual void do_cast(const Cast& args) = 0;
  virtual void do_scaled_copy(const ScaledCopy& args) = 0;
  virtual void do_softmax_cross_entropy(const SoftmaxCrossEntropy& args) = 0;
  virtual void do_checksum(const Checksum& args) = 0;
  virtual void do_global_norm(const GlobalNorm& args) = 0;
  virtual void do_lamb_update(const LambUpdate& args) = 0;
  virtual void do_add_quotients(const AddQuotients& args) = 0;
  virtual void do_hold_update(const HoldUpdate& args) = 0;

  Context& context_;
};

/// The backend of the context's device.
std::unique_ptr<Ops> make_ops(Context& context);

}  // namespace flashbert
