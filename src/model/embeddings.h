#pragma once

#include "model/activation_plan.h"
#include "model/pass.h"

namespace flashbert {

/// y = dropout(LayerNorm(word + position + segment)), forward and backward, with its activations.
class Embeddings {
 public:
  explicit Embeddings(const ActivationPlan& plan);
  Tensor forward(const Pass& pass) const;  ///< (T, H)
  /// gradient (T, H): in dy, scratch afterwards. Adds into the word table's gradient, which the decoder has written before.
  void backward(const Pass& pass, Tensor gradient) const;

 private:
  BertConfig config_;
  BufferId z_;          ///< (T, H): the sum, before the norm
  BufferId y_;          ///< (T, H)
  BufferId mean_;       ///< (T) f32
  BufferId rstd_;       ///< (T) f32
  BufferId keep_bits_;  ///< (T, keep_words(H)) u32
};

}  // namespace flashbert
