#include "kernels/cpu/cpu_ops.h"
#include "support/lagging_device.h"

namespace flashbert::testing {
namespace {

class LaggingOps final : public Ops {
 public:
  explicit LaggingOps(LaggingContext& context) : Ops(context), lagging_(context), cpu_(std::make_unique<cpu::CpuOps>(context.cpu())) {}

  [[nodiscard]] std::int64_t row_count(std::int64_t rows) const override { return cpu_->row_count(rows); }
  [[nodiscard]] std::int64_t workspace_bytes(const OpsPlan& plan) const override { return cpu_->workspace_bytes(plan); }
  void prepare(const OpsPlan& plan, Tensor workspace) override { cpu_->prepare(plan, workspace); }
  [[nodiscard]] std::int64_t linear_pack_bytes(const LinearShape& shape) const override { return cpu_->linear_pack_bytes(shape); }

 private:
  void later(std::function<void()> work) { lagging_.enqueue(Stream::kCompute, std::move(work)); }

  // The arguments are copied; lists that they refer to live as long as the parameters, as for any device.
  void do_fill_zero(Tensor tensor) override {
    later([this, tensor] { cpu_->fill_zero(tensor); });
  }
#define FLASHBERT_LATER(Args, name)            \
  void do_##name(const Args& args) override {  \
    later([this, args] { cpu_->name(args); }); \
  }
  FLASHBERT_LATER(LinearPack, linear_pack)
  FLASHBERT_LATER(LinearForward, linear_forward)
  FLASHBERT_LATER(LinearInputGradient, linear_input_gradient)
  FLASHBERT_LATER(LinearWeightGradient, linear_weight_gradient)
  FLASHBERT_LATER(AttentionForward, attention_forward)
  FLASHBERT_LATER(AttentionBackward, attention_backward)
  FLASHBERT_LATER(DropoutAddLayerNormForward, dropout_add_layer_norm_forward)
  FLASHBERT_LATER(DropoutAddLayerNormBackward, dropout_add_layer_norm_backward)
  FLASHBERT_LATER(EmbeddingsForward, embeddings_forward)
  FLASHBERT_LATER(EmbeddingsBackward, embeddings_backward)
  FLASHBERT_LATER(EmbeddingGradient, embedding_gradient)
  FLASHBERT_LATER(GeluForward, gelu_forward)
  FLASHBERT_LATER(GeluBackward, gelu_backward)
  FLASHBERT_LATER(TanhForward, tanh_forward)
  FLASHBERT_LATER(TanhBackward, tanh_backward)
  FLASHBERT_LATER(GatherRows, gather_rows)
  FLASHBERT_LATER(ScatterAddRows, scatter_add_rows)
  FLASHBERT_LATER(Cast, cast)
  FLASHBERT_LATER(ScaledCopy, scaled_copy)
  FLASHBERT_LATER(SoftmaxCrossEntropy, softmax_cross_entropy)
  FLASHBERT_LATER(Checksum, checksum)
  FLASHBERT_LATER(GlobalNorm, global_norm)
  FLASHBERT_LATER(LambUpdate, lamb_update)
  FLASHBERT_LATER(AddQuotients, add_quotients)
  FLASHBERT_LATER(HoldUpdate, hold_update)
#undef FLASHBERT_LATER

  LaggingContext& lagging_;
  std::unique_ptr<Ops> cpu_;
};

}  // namespace

std::unique_ptr<Ops> make_lagging_ops(LaggingContext& context) { return std::make_unique<LaggingOps>(context); }

}  // namespace flashbert::testing
