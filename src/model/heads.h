#pragma once

#include "model/pass.h"

namespace flashbert {

/// Sums over the micro-batches of a step, in device memory.
struct LossSums {
  LossCounters mlm, nsp;
};

/// The masked-LM head (dense, GELU, LayerNorm, tied decoder) on masked rows and the next-sentence head (tanh pooler, 2-way linear) on
/// [CLS] rows, with both losses, forward and backward.
class Heads {
 public:
  Heads(const BertConfig& config, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan);
  void bind(const Arena& arena);
  /// x (R, H): the encoder's output at head rows. Adds to the sums. In training, logits become their gradients at once.
  void forward(const Pass& pass, ConstTensor x, const LossSums& sums);
  /// dx (R, H): out.
  void backward(const Pass& pass, Tensor dx);

 private:
  BertConfig config_;
  BufferId mlm_input_id_, before_gelu_id_, logits_id_, cls_input_id_, pooled_id_, nsp_logits_id_, mlm_gradient_id_, cls_gradient_id_;
  Tensor mlm_input_, before_gelu_, logits_, cls_input_, pooled_, nsp_logits_, mlm_gradient_, cls_gradient_;
  ResidualNorm norm_;  ///< without residual and dropout; its branch is the GELU's output
};

}  // namespace flashbert
