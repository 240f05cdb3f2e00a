#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/dtype.h"

namespace flashbert::testing {

/// The nearest value of an element type.
inline double rounded(double value, Dtype dtype) {
  const auto nearest = static_cast<float>(value);
  if (dtype == Dtype::kBf16) return static_cast<double>(to_float(to_bf16(nearest)));
  return dtype == Dtype::kF32 ? static_cast<double>(nearest) : value;
}
inline std::vector<double> rounded(std::vector<double> values, Dtype dtype) {
  for (double& value : values) value = rounded(value, dtype);
  return values;
}

/// A fixed stream of test values; the seed is in the code of each test.
class RandomValues {
 public:
  explicit RandomValues(std::uint64_t seed) : engine_(seed) {}
  /// Uniform in [-1, 1).
  double next() { return static_cast<double>(engine_() >> 11) * 0x1p-52 - 1.0; }
  /// Uniform in [0, limit).
  std::int32_t below(std::int32_t limit) { return static_cast<std::int32_t>(engine_() % static_cast<std::uint64_t>(limit)); }
  /// Uniform in [-scale, scale), rounded to the element type.
  std::vector<double> values(std::int64_t count, Dtype dtype, double scale = 1.0) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = rounded(scale * next(), dtype);
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace flashbert::testing
