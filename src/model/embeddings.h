#pragma once

#include "model/pass.h"

namespace flashbert {

/// y = dropout(LayerNorm(word + position + segment)), forward and backward, with its activations.
class Embeddings {
 public:
  Embeddings(const BertConfig& config, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan);
  void bind(const Arena& arena);
  Tensor forward(const Pass& pass);  ///< (T, H)
  /// gradient (T, H): in dy, scratch afterwards. Adds into the word table's gradient, which the decoder has written before.
  void backward(const Pass& pass, Tensor gradient);

 private:
  BertConfig config_;
  BufferId z_id_, y_id_, mean_id_, rstd_id_, keep_id_;
  Tensor z_, y_, mean_, rstd_, keep_;
};

}  // namespace flashbert
