#pragma once

#include <cmath>
#include <cstdint>

#include "core/dtype.h"

namespace flashbert::testing {

/// How far a result may lie from the wanted value: absolute + relative * |wanted|.
struct Tolerance {
  double absolute = 0.0;
  double relative = 0.0;
  [[nodiscard]] double limit(double wanted) const { return absolute + relative * std::abs(wanted); }
};

/// A sum of `terms` numbers whose magnitudes add up to `magnitude`, each addition rounded with relative error at most `unit`.
struct SumError {
  double unit = 0.0;
  std::int64_t terms = 0;
  double magnitude = 0.0;
};

/// The worst case, terms * unit * magnitude, needs all roundings to point the same way and would hide real mistakes in long sums. Taken
/// as independent of each other with mean zero, they add up to more than c * sqrt(terms) * unit * magnitude with a probability of at
/// most 2 exp(-c^2 / 2), in any order of summation (Higham and Mary, 2019, theorem 2.4). c = 6 makes that 3e-8 an element.
inline constexpr double kSumConfidence = 6.0;

inline Tolerance sum_tolerance(const SumError& sum) {
  return {.absolute = kSumConfidence * std::sqrt(static_cast<double>(sum.terms)) * sum.unit * sum.magnitude};
}

/// One rounding to an element type.
inline Tolerance rounding_tolerance(Dtype dtype) { return {.relative = unit_roundoff(dtype)}; }

}  // namespace flashbert::testing
