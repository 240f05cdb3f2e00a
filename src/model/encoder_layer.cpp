#include "model/encoder_layer.h"

namespace flashbert {

EncoderLayer::EncoderLayer(const ActivationPlan& plan, std::int64_t layer, LayerRows rows)
    : rows_(rows), attention_(plan, layer, rows), feed_forward_(plan, layer, rows) {}

Tensor EncoderLayer::forward(const Pass& pass, ConstTensor x) {
  const RowSet& rows = pass.batch.rows(rows_);
  x_ = x;
  attended_ = attention_.forward(pass, x, rows);
  return feed_forward_.forward(pass, attended_, rows);
}

Tensor EncoderLayer::backward(const Pass& pass, Tensor gradient, const BackwardBuffers& buffers) const {
  feed_forward_.backward(pass, attended_, gradient, buffers);
  return attention_.backward(pass, x_, gradient, pass.batch.rows(rows_), buffers);
}

}  // namespace flashbert
