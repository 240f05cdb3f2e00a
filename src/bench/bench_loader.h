#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/bench.h"

namespace flashbert {

struct LoaderBenchOptions {
  std::filesystem::path data;        ///< shard or folder of shards
  std::int64_t batch = 448;          ///< sequences
  std::int64_t max_positions = 512;  ///< longest sequence
};
/// Reads and packs batches from shards as training does, with no training. Throws InputError for shards that cannot be read.
std::vector<BenchRow> bench_loader(const BenchOptions& options, const LoaderBenchOptions& shape);

}  // namespace flashbert
