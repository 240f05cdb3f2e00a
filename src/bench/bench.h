#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "train/backend.h"
#include "train/train_settings.h"

namespace flashbert {

/// One line of a measurement: what, how fast, and which share of what the machine can do (measured in the same process).
struct BenchRow {
  std::string name;
  std::vector<std::pair<std::string, double>> values;  ///< key with unit, figure
};

/// How every bench measures; what it measures is its own options'.
struct BenchOptions {
  int threads = 0;  ///< 0 = all cores
  Precision precision = Precision::kBf16;
  double seconds = 3.0;  ///< for each row; at least five repetitions take place
};

/// What all rows are measured with.
struct BenchMachine {
  std::string precision;  ///< what is computed in; f32 where bf16 was asked for and the processor has no products of it
  std::string instruction_set;
  int threads = 0;
};
/// Throws what make_backend throws; the choice is told in the log.
BenchMachine bench_machine(const BenchOptions& options);

/// Device, operations and number type that a bench with these options computes with.
Backend bench_backend(const BenchOptions& options);

/// The middle one of at least one value; of an even number the upper of the two in the middle.
double median(std::vector<double> values);

/// Median seconds of f over at least five calls and until the time is used, after one call that is not counted.
double time_median(double seconds, const std::function<void()>& f);

/// Operations a second of multiply-adds that stay in registers, in the compute type and with all threads. Benches take the larger of two
/// measurements, before and after their rows: a neighbour may slow either.
double peak_flops(const Backend& backend);

/// Milliseconds, gflops and share of the peak of `flops` operations in `seconds`; `peak` as peak_flops tells it.
BenchRow product_row(const std::string& name, double seconds, double flops, double peak);

}  // namespace flashbert
