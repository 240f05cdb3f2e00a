#pragma once

#include "model/feed_forward.h"
#include "model/self_attention.h"

namespace flashbert {

/// One layer of the encoder: attended = SelfAttention(x), y = FeedForward(attended).
class EncoderLayer {
 public:
  /// rows: what the layer computes. All tokens but in the last layer, of which the heads read few rows.
  EncoderLayer(const ActivationPlan& plan, std::int64_t layer, LayerRows rows);
  /// x (T, H), which must stay until backward. Returns y: (T, H), or (R, H) for head rows.
  Tensor forward(const Pass& pass, ConstTensor x);
  /// After forward of the same pass. gradient (as y): in dy, scratch afterwards. Returns dx (T, H): in
  /// gradient's place for all tokens, in buffers.gradient for head rows.
  Tensor backward(const Pass& pass, Tensor gradient, const BackwardBuffers& buffers) const;

 private:
  LayerRows rows_;
  SelfAttention attention_;
  FeedForward feed_forward_;
  ConstTensor x_;         ///< (T, H), kept by forward for backward
  ConstTensor attended_;  ///< (N, H), likewise
};

}  // namespace flashbert
