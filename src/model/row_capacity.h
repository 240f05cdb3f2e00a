#pragma once

#include <cstdint>

#include "kernels/args/common.h"

namespace flashbert {

/// Which rows of the tokens a layer computes: it asks its queries for them, and all that follows has a row each.
enum class LayerRows { kAllTokens, kHeadRows };

/// The most rows of each kind one micro-batch may have (rounded up to row buckets by whoever books).
struct RowCapacity {
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t masked = 0;
  std::int64_t seq_len = 0;  ///< longest sequence
  [[nodiscard]] std::int64_t head_rows() const { return sequences + masked; }
  [[nodiscard]] std::int64_t rows(LayerRows which) const { return which == LayerRows::kHeadRows ? head_rows() : tokens; }
};

}  // namespace flashbert
