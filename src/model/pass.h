#pragma once

#include <cstdint>
#include <functional>

#include "core/arena.h"
#include "kernels/ops.h"
#include "model/batch.h"
#include "model/parameters.h"

namespace flashbert {

/// Parameters of one LayerNorm: values and, in training, gradients; all (H) f32.
struct NormParameters {
  ConstTensor gamma, beta;
  Tensor dgamma, dbeta;
};

/// What every layer's forward and backward are given.
struct Pass {
  Ops& ops;
  const Arena& arena;  ///< where the model's buffers lie (BertModel::arena)
  const Parameters& parameters;
  const BatchView& batch;
  bool training = false;  ///< dropout on, activations kept
  std::uint64_t seed = 0;
  Accumulate accumulate = Accumulate::kOverwrite;  ///< of parameter gradients: overwrite in the first micro-batch of a step
  /// Called when this pass has enqueued its last write to a block's gradient (storage order, parameter_table.h); may be empty. "Ready" is
  /// a place in the compute stream's order, not a moment: a device may not have computed the gradient yet. Who reads it on another stream
  /// records an event here and waits for that.
  std::function<void(std::size_t block)> on_gradient_ready;

  /// The memory of a buffer, at its full capacity. Costs an index into the arena's list.
  [[nodiscard]] Tensor memory(BufferId id) const { return arena.tensor(id); }
  /// Its first rows: those of this batch.
  [[nodiscard]] Tensor memory(BufferId id, std::int64_t rows) const { return arena.tensor(id).rows(0, rows); }
  /// The same of keep bits; absent where nothing is dropped, as the ops want it.
  [[nodiscard]] Tensor keep_bits(BufferId id, std::int64_t rows, const Dropout& dropout) const {
    return dropout.active() ? memory(id, rows) : Tensor{};
  }

  [[nodiscard]] Dropout dropout(float rate, std::int64_t layer, DropoutSite site) const {
    return {.rate = training ? rate : 0.0F, .seed = seed, .layer = static_cast<std::uint32_t>(layer), .site = site};
  }
  [[nodiscard]] NormParameters norm(std::size_t gamma, std::size_t beta) const {
    return {.gamma = parameters.master(gamma), .beta = parameters.master(beta), .dgamma = gradient(gamma), .dbeta = gradient(beta)};
  }
  [[nodiscard]] Tensor gradient(std::size_t block) const { return training ? parameters.gradient(block) : Tensor{}; }
  void ready(std::size_t block) const {
    if (on_gradient_ready) on_gradient_ready(block);
  }

  // The three products of a linear layer; x (N, in), y (N, out).
  void linear_forward(const LinearLayer& layer, Tensor y, ConstTensor x) const {
    ops.linear_forward({.y = y, .x = x, .weights = layer.weights, .bias = layer.bias});
  }
  void linear_input_gradient(const LinearLayer& layer, Tensor dx, ConstTensor dy, Accumulate into) const {
    ops.linear_input_gradient({.dx = dx, .dy = dy, .weights = layer.weights, .accumulate = into});
  }
  /// y = gelu(x W^T + b); training keeps what went into GELU, (N, out).
  void linear_gelu_forward(const LinearLayer& layer, Tensor y, ConstTensor x, Tensor before_gelu) const {
    ops.linear_forward({.y = y,
                        .x = x,
                        .weights = layer.weights,
                        .bias = layer.bias,
                        .activation = Activation::kGelu,
                        .before_gelu = training ? before_gelu : Tensor{}});
  }
  /// dx = (dy W) gelu'(before_gelu), and with it the bias gradient of `below`, the layer that GELU follows.
  void linear_gelu_input_gradient(const LinearLayer& layer, Tensor dx, ConstTensor dy, ConstTensor before_gelu,
                                  const LinearLayer& below) const {
    ops.linear_input_gradient(
        {.dx = dx, .dy = dy, .weights = layer.weights, .before_gelu = before_gelu, .dbias = below.dbias, .dbias_accumulate = accumulate});
  }
  /// For a layer whose bias gradient the layer above has made.
  void linear_weight_only_gradient(const LinearLayer& layer, ConstTensor dy, ConstTensor x) const {
    ops.linear_weight_gradient({.dweight = layer.dweight, .dbias = {}, .dy = dy, .x = x, .accumulate = accumulate});
  }
  void linear_weight_gradient(const LinearLayer& layer, ConstTensor dy, ConstTensor x) const {
    ops.linear_weight_gradient({.dweight = layer.dweight, .dbias = layer.dbias, .dy = dy, .x = x, .accumulate = accumulate});
  }
};

/// Buffers of backward that every layer uses in turn, of the compute dtype.
struct BackwardBuffers {
  BufferId gradient;         ///< (T, H): travels from layer to layer
  BufferId branch;           ///< (T, H): at a sublayer's output, before its norm
  BufferId context;          ///< (T, H): at what attention gives to its output projection
  BufferId query_key_value;  ///< (T, 3H): at query, key and value
  BufferId intermediate;     ///< (T, I): at both sides of GELU
  BufferId head_gradient;    ///< (R, H): at the encoder's output, which only head rows have
};

}  // namespace flashbert
