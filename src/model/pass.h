#pragma once

#include <cstdint>
#include <functional>

#include "kernels/ops.h"
#include "model/batch.h"
#include "model/parameters.h"
#include "model/residual_norm.h"

namespace flashbert {

/// What every layer's forward and backward are given.
struct Pass {
  Ops& ops;
  const Parameters& parameters;
  const BatchView& batch;
  bool training = false;  ///< dropout on, activations kept
  std::uint64_t seed = 0;
  Accumulate accumulate = Accumulate::kOverwrite;  ///< of parameter gradients: overwrite in the first micro-batch of a step
  /// Called when a block's gradient will not be touched again in this pass (storage order, parameter_table.h); may be empty.
  std::function<void(std::size_t block)> on_gradient_ready;

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

  // The three products of a linear layer.
  void forward(const LinearLayer& layer, Tensor y, ConstTensor x) const {
    ops.linear_forward({.y = y, .x = x, .weights = layer.weights, .bias = layer.bias});
  }
  void input_gradient(const LinearLayer& layer, Tensor dx, ConstTensor dy, Accumulate into) const {
    ops.linear_input_gradient({.dx = dx, .dy = dy, .weights = layer.weights, .accumulate = into});
  }
  void weight_gradient(const LinearLayer& layer, ConstTensor dy, ConstTensor x) const {
    ops.linear_weight_gradient({.dweight = layer.dweight, .dbias = layer.dbias, .dy = dy, .x = x, .accumulate = accumulate});
  }
};

/// Buffers of backward that every layer uses in turn. gradient holds the gradient that travels from layer to layer.
struct BackwardBuffers {
  Tensor gradient, branch, context;  ///< (T, H)
  Tensor qkv;                        ///< (T, 3H)
  Tensor intermediate;               ///< (T, I)
  Tensor head_gradient;              ///< (R, H)
};

}  // namespace flashbert
