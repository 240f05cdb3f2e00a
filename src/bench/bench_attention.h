#pragma once

#include <cstdint>

#include "bench/bench.h"

namespace flashbert {

struct AttentionBenchOptions {
  std::int64_t heads = 4, head_dim = 64, seq_len = 512;
  std::int64_t batch = 8;  ///< sequences, all of seq_len tokens
  float dropout = 0.1F;
};
/// The measured peak, then forward (two products), backward (five) and both together.
std::vector<BenchRow> bench_attention(const BenchOptions& options, const AttentionBenchOptions& shape);

}  // namespace flashbert
