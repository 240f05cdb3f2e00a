#pragma once

#include <cstdint>

#include "bench/bench.h"

namespace flashbert {

struct GemmBenchOptions {
  std::int64_t rows = 2048;  ///< tokens
  std::int64_t in = 1024, out = 1024;
};
/// A linear layer, y = x W^T + b with W (out, in): the measured peak, then forward, input gradient and weight gradient at
/// 2 x rows x in x out operations each.
std::vector<BenchRow> bench_gemm(const BenchOptions& options, const GemmBenchOptions& shape);

}  // namespace flashbert
