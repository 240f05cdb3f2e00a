#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formulas.h"

namespace flashbert::reference {

/// Whether the decision of one element of a hidden activation keeps it: one Philox call for each element, nothing shared or vectorised.
inline bool keeps_hidden(const Dropout& dropout, std::uint64_t sample_index, std::int32_t position, std::size_t column) {
  const auto counter = dropout.counter(sample_index, 0, static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(column / 8));
  return dropout_word(Philox::random(counter, dropout.key()), static_cast<int>(column % 8)) >= dropout.threshold();
}

/// The same for the probability of one query row and key of one head.
inline bool keeps_attention(const Dropout& dropout, std::uint64_t sample_index, std::size_t head, std::int32_t query_position,
                            std::size_t key) {
  const auto column = static_cast<int>(key);
  const auto block = static_cast<std::uint32_t>(column / 32 * 4 + attention_call(column));
  const auto counter = dropout.counter(sample_index, static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(query_position), block);
  return dropout_word(Philox::random(counter, dropout.key()), attention_word(column)) >= dropout.threshold();
}

/// Where the rows of an activation come from; sequence -1 = tail.
struct RowOrigins {
  std::vector<std::int32_t> sequence, position;
  std::vector<std::uint64_t> sample_index;
};

/// Factors (rows, hidden): 0 where dropped, the keep scale where kept, 1 in tail rows and where dropout is off.
inline std::vector<double> hidden_mask(const Dropout& dropout, const RowOrigins& origins, std::size_t hidden) {
  const std::size_t rows = origins.sequence.size();
  std::vector<double> mask(rows * hidden, 1.0);
  if (!dropout.active()) return mask;
  for (std::size_t row = 0; row < rows; ++row) {
    if (origins.sequence[row] < 0) continue;
    const std::uint64_t sample = origins.sample_index[static_cast<std::size_t>(origins.sequence[row])];
    for (std::size_t c = 0; c < hidden; ++c) {
      mask[row * hidden + c] = keeps_hidden(dropout, sample, origins.position[row], c) ? static_cast<double>(dropout.keep_scale()) : 0.0;
    }
  }
  return mask;
}

/// x with each element times its factor; elements whose factor is 1 come through untouched.
template <class Real>
std::vector<Real> masked(std::vector<Real> x, const std::vector<double>& mask) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (mask[i] != 1.0) x[i] = x[i] * Real(mask[i]);
  }
  return x;
}

}  // namespace flashbert::reference
