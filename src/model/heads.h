#pragma once

#include "model/layer_norm.h"

namespace flashbert {

/// Sums over the micro-batches of a step, in device memory.
struct LossSums {
  LossCounters mlm, nsp;
};

/// The masked-LM head (dense, GELU, LayerNorm, tied decoder) on masked rows and the next-sentence head (tanh pooler, 2-way linear) on
/// [CLS] rows, with both losses, forward and backward.
class Heads {
 public:
  explicit Heads(const ActivationPlan& plan);
  /// x (R, H): the encoder's output at head rows. Adds to the sums. In training, logits become their gradients at once.
  void forward(const Pass& pass, ConstTensor x, const LossSums& sums) const;
  /// dx (R, H): out.
  void backward(const Pass& pass, Tensor dx) const;

 private:
  std::int64_t vocab_;
  LayerNorm norm_;         ///< of the masked-LM head
  BufferId mlm_input_;     ///< (P, H): x at masked rows; in backward its gradient
  BufferId before_gelu_;   ///< (P, H)
  BufferId logits_;        ///< (P, V): after the loss their gradient
  BufferId mlm_gradient_;  ///< (P, H)
  BufferId cls_input_;     ///< (B, H): x at [CLS] rows; in backward its gradient
  BufferId pooled_;        ///< (B, H)
  BufferId nsp_logits_;    ///< (B, 2): after the loss their gradient
  BufferId cls_gradient_;  ///< (B, H)
};

}  // namespace flashbert
