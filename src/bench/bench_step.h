#pragma once

#include <cstdint>

#include "bench/bench.h"
#include "model/bert_config.h"

namespace flashbert {

struct StepBenchOptions {
  BertConfig model;
  std::int64_t seq_len = 128;    ///< of the longest sequence
  std::int64_t batch = 32;       ///< sequences an update
  std::int64_t micro_batch = 0;  ///< sequences at once; 0 = the batch
};
/// Trains on random samples with the Wikipedia length distribution scaled to seq_len; sequences/s and the rest from the median step.
/// Throws ConfigError where the micro-batch does not divide the batch.
std::vector<BenchRow> bench_step(const BenchOptions& options, const StepBenchOptions& shape);

}  // namespace flashbert
