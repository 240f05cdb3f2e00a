#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formulas.h"
#include "reference/philox.h"

/// Dropout by the rule of docs/metrics.md, written out once more. Of the program's `Dropout` only the four fields are used (which rate,
/// seed, layer and site a test asks for); threshold, scale, counter, words and columns stand here in figures of their own.
namespace flashbert::reference {

/// A 16-bit word below this drops: the rate in 65536ths, rounded to nearest.
inline std::uint32_t drop_below(const Dropout& dropout) {
  return static_cast<std::uint32_t>(std::lround(static_cast<double>(dropout.rate) * 65536.0));
}

/// What is kept is divided by the fraction of words that keep, as an f32.
inline double kept_factor(const Dropout& dropout) {
  return static_cast<double>(static_cast<float>(65536.0 / (65536.0 - drop_below(dropout))));
}

/// 0 embeddings, 1 attention probabilities, 2 attention output, 3 feed-forward output.
inline std::uint32_t site_number(DropoutSite site) {
  switch (site) {
    case DropoutSite::kEmbeddings:
      return 0;
    case DropoutSite::kAttention:
      return 1;
    case DropoutSite::kAttentionOutput:
      return 2;
    default:
      return 3;
  }
}

/// Which decision of which call.
struct Decision {
  std::uint64_t sample = 0;
  std::uint32_t head = 0, position = 0, block = 0;
  unsigned word = 0;  ///< 0 to 7: the low half of each output first
};

inline bool keeps(const Dropout& dropout, const Decision& at) {
  const std::array<std::uint32_t, 4> counter = {
      static_cast<std::uint32_t>(at.sample % 4294967296ULL), static_cast<std::uint32_t>(at.sample / 4294967296ULL),
      dropout.layer * 1048576U + site_number(dropout.site) * 65536U + at.head, at.position * 65536U + at.block};
  const std::uint32_t random = philox4x32(counter, dropout.seed)[at.word / 2];
  return (at.word % 2 == 0 ? random % 65536U : random / 65536U) >= drop_below(dropout);
}

/// Whether the decision of one element of a hidden activation keeps it: one Philox call for each element, nothing shared or vectorised.
inline bool keeps_hidden(const Dropout& dropout, std::uint64_t sample_index, std::int32_t position, std::size_t column) {
  return keeps(dropout, {.sample = sample_index,
                         .position = static_cast<std::uint32_t>(position),
                         .block = static_cast<std::uint32_t>(column / 8),
                         .word = static_cast<unsigned>(column % 8)});
}

/// The same for the probability of one query row and key of one head: call t of a block of 32 keys decides keys 2t, 2t + 1, 2t + 8, 2t + 9,
/// 2t + 16, 2t + 17, 2t + 24, 2t + 25 of it, in this order.
inline bool keeps_attention(const Dropout& dropout, std::uint64_t sample_index, std::size_t head, std::int32_t query_position,
                            std::size_t key) {
  const std::size_t in_block = key % 32;
  for (std::size_t t = 0; t < 4; ++t) {
    const std::array<std::size_t, 8> columns = {2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9, 2 * t + 16, 2 * t + 17, 2 * t + 24, 2 * t + 25};
    for (unsigned word = 0; word < 8; ++word) {
      if (columns[word] != in_block) continue;
      return keeps(dropout, {.sample = sample_index,
                             .head = static_cast<std::uint32_t>(head),
                             .position = static_cast<std::uint32_t>(query_position),
                             .block = static_cast<std::uint32_t>(key / 32 * 4 + t),
                             .word = word});
    }
  }
  return false;  // every column has its call
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
  if (drop_below(dropout) == 0) return mask;
  for (std::size_t row = 0; row < rows; ++row) {
    if (origins.sequence[row] < 0) continue;
    const std::uint64_t sample = origins.sample_index[static_cast<std::size_t>(origins.sequence[row])];
    for (std::size_t c = 0; c < hidden; ++c) {
      mask[row * hidden + c] = keeps_hidden(dropout, sample, origins.position[row], c) ? kept_factor(dropout) : 0.0;
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
