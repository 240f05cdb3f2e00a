#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/dtype.h"
#include "support/tolerance.h"

namespace flashbert::testing {

/// A number that knows how far an f32 computation of it may be off: value is exact (double), error bounds |f32 result - value|. The naive
/// references are templates over the number type; run with double they give the truth, run with Estimate also the tolerance of every
/// element, from the arithmetic alone. First-order running error analysis: each operation adds one rounding of its result to what its
/// arguments bring along; sums follow sum_tolerance.
struct Estimate {
  double value = 0.0;
  double error = 0.0;
  Estimate() = default;
  Estimate(double exact) : value(exact) {}
  Estimate(double value_in, double error_in) : value(value_in), error(error_in) {}
};

inline constexpr double kF32Unit = 0x1p-24;
/// Vector exp, log, tanh and sigmoid are good to 2 units in the last place, 4 unit roundoffs.
inline constexpr double kFunctionUnits = 4.0;
/// Results below the smallest normal number may become zero.
inline constexpr double kSmallestNormal = 0x1p-126;
/// An exponential below this may come out as anything from zero to it: kernels clamp the argument so that exponents stay normal, which is
/// nothing beside the 1 that every softmax holds.
inline constexpr double kExponentialFloor = 0x1p-125;

inline double value_of(double x) { return x; }
inline double value_of(const Estimate& x) { return x.value; }

/// The value as it is after `units` roundings of relative size `unit`.
inline Estimate with_rounding(double value, double error, double units = 1.0, double unit = kF32Unit) {
  return {value, error + units * unit * (std::abs(value) + error)};
}

inline Estimate operator-(const Estimate& a) { return {-a.value, a.error}; }
inline Estimate operator+(const Estimate& a, const Estimate& b) { return with_rounding(a.value + b.value, a.error + b.error); }
inline Estimate operator-(const Estimate& a, const Estimate& b) { return with_rounding(a.value - b.value, a.error + b.error); }
inline Estimate operator*(const Estimate& a, const Estimate& b) {
  return with_rounding(a.value * b.value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error);
}
inline Estimate operator/(const Estimate& a, const Estimate& b) {
  const double quotient = a.value / b.value;
  if (b.error >= std::abs(b.value)) return {quotient, std::numeric_limits<double>::infinity()};
  return with_rounding(quotient, (a.error + std::abs(quotient) * b.error) / (std::abs(b.value) - b.error));
}

inline double square_root(double x) { return std::sqrt(x); }
inline Estimate square_root(const Estimate& x) {
  const double root = std::sqrt(x.value);
  const double below = std::sqrt(std::max(0.0, x.value - x.error));
  return with_rounding(root, root + below > 0.0 ? x.error / (root + below) : std::sqrt(x.error));
}

inline double exponential(double x) { return std::exp(x); }
inline Estimate exponential(const Estimate& x) {
  const double value = std::exp(x.value);
  return with_rounding(value, value * std::expm1(x.error) + kExponentialFloor, kFunctionUnits);
}

inline double logarithm(double x) { return std::log(x); }
inline Estimate logarithm(const Estimate& x) {
  const double error = x.error < x.value ? -std::log1p(-x.error / x.value) : std::numeric_limits<double>::infinity();
  return with_rounding(std::log(x.value), error, kFunctionUnits);
}

inline double hyperbolic_tangent(double x) { return std::tanh(x); }
inline Estimate hyperbolic_tangent(const Estimate& x) {
  const double nearest = std::tanh(std::max(0.0, std::abs(x.value) - x.error));
  return with_rounding(std::tanh(x.value), x.error * (1.0 - nearest * nearest), kFunctionUnits);
}

/// 1 / (1 + exp(-x)).
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline Estimate sigmoid(const Estimate& x) {
  // The slope is at most exp(-|x|), and computing costs an exp, a sum and a quotient.
  const double steepest = std::exp(-std::max(0.0, std::abs(x.value) - x.error));
  return with_rounding(sigmoid(x.value), std::min(1.0, x.error * steepest) + kSmallestNormal, kFunctionUnits + 2.0);
}

/// The value rounded to an element type for storage.
inline Estimate stored(const Estimate& x, Dtype dtype) {
  return with_rounding(x.value, x.error + kSmallestNormal, 1.0, unit_roundoff(dtype));
}
inline std::vector<Estimate> stored(std::vector<Estimate> values, Dtype dtype) {
  for (Estimate& x : values) x = stored(x, dtype);
  return values;
}

/// Values that are exact in f32.
inline std::vector<Estimate> exact(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// A sum in any order.
template <class Real>
class Sum {
 public:
  void add(const Real& x) { total_ += x; }
  [[nodiscard]] Real total() const { return total_; }

 private:
  Real total_ = 0.0;
};

template <>
class Sum<Estimate> {
 public:
  void add(const Estimate& x) {
    value_ += x.value;
    error_ += x.error;
    magnitude_ += std::abs(x.value) + x.error;
    ++terms_;
  }
  [[nodiscard]] Estimate total() const {
    return {value_, error_ + sum_tolerance({.unit = kF32Unit, .terms = terms_, .magnitude = magnitude_}).absolute};
  }

 private:
  double value_ = 0.0, error_ = 0.0, magnitude_ = 0.0;
  std::int64_t terms_ = 0;
};

}  // namespace flashbert::testing
