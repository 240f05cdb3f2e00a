#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/bert_config.h"
#include "train/train_settings.h"

namespace flashbert {

/// One line of a measurement: what, how fast, and which share of what the machine can do (measured in the same process).
struct BenchRow {
  std::string name;
  std::vector<std::pair<std::string, double>> values;  ///< key with unit, figure
};

struct BenchOptions {
  int threads = 0;  ///< 0 = all cores
  Precision precision = Precision::kBf16;
  double seconds = 3.0;  ///< for each row; at least five repetitions take place
};

/// The middle one of at least one value; of an even number the upper of the two in the middle.
double median(std::vector<double> values);

/// What all rows are measured with.
struct BenchMachine {
  std::string precision;  ///< what is computed in; f32 where bf16 was asked for and the processor has no products of it
  std::string instruction_set;
  int threads = 0;
};
BenchMachine bench_machine(const BenchOptions& options);

struct GemmBenchOptions {
  std::int64_t rows = 2048, in = 1024, out = 1024;
};
std::vector<BenchRow> bench_gemm(const BenchOptions& options, const GemmBenchOptions& shape);

struct AttentionBenchOptions {
  std::int64_t heads = 4, head_dim = 64, seq_len = 512, batch = 8;
  float dropout = 0.1F;
};
std::vector<BenchRow> bench_attention(const BenchOptions& options, const AttentionBenchOptions& shape);

/// Trains on random samples with the Wikipedia length distribution scaled to seq_len; sequences/s and the rest from the median step.
struct StepBenchOptions {
  BertConfig model;
  std::int64_t seq_len = 128, batch = 32, micro_batch = 0;
};
std::vector<BenchRow> bench_step(const BenchOptions& options, const StepBenchOptions& shape);

/// Reads and packs batches from shards as training does, with no training.
struct LoaderBenchOptions {
  std::filesystem::path data;
  std::int64_t batch = 448, max_positions = 512;
};
std::vector<BenchRow> bench_loader(const BenchOptions& options, const LoaderBenchOptions& shape);

}  // namespace flashbert
