#pragma once

#include <cstdint>

namespace flashbert {

/// Length of a sample of the benchmark's kind: the `quantile` (0 <= quantile < 1) of the Wikipedia length distribution at 512 tokens,
/// scaled to seq_len and rounded up, at least 5. Piecewise linear between measured points of the cumulative histogram of 16.3 million
/// sequences (mean 256 of 512, 23 % of full length); off by at most 0.2 percentage points. Source: docs/metrics.md.
std::int64_t wikipedia_length(double quantile, std::int64_t seq_len);

/// Masked positions of a sample of `length` tokens: max(1, round-half-even(0.15 length)), at most `most`. Source: the reference's
/// create_pretraining_data.
std::int64_t masked_count(std::int64_t length, std::int64_t most);

}  // namespace flashbert
