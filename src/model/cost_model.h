#pragma once

#include <cstdint>

#include "model/bert_config.h"

namespace flashbert {

/// What a batch holds, as far as arithmetic depends on it.
struct BatchCounts {
  double tokens = 0.0;            ///< T, real tokens
  double squared_lengths = 0.0;   ///< sum of S^2 over sequences
  double masked = 0.0;            ///< P
  double sequences = 0.0;         ///< B
  double head_row_lengths = 0.0;  ///< sum over sequences of S * (head rows of the sequence)
};

/// Floating-point operations of products (2 a multiply-add) of one training step: three times the forward pass,
///   forward = 2 T L (4 H^2 + 2 H I) + 4 L H sum(S^2) + 2 P (H^2 + H V) + 2 B (H^2 + 2 H),
/// the formula everybody's figures use. GELU, norms, softmax and the recomputation in attention are not counted.
double training_flops(const BertConfig& config, const BatchCounts& counts);

/// The same for what is really computed: the last layer's queries, projection and feed-forward for head rows only, the padded
/// vocabulary, and five products in attention's backward (2.5 times its forward). At most a few percent lower.
double executed_training_flops(const BertConfig& config, const BatchCounts& counts);

}  // namespace flashbert
