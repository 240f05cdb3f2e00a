#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/estimate.h"

namespace flashbert::reference {

using testing::hyperbolic_tangent;
using testing::sigmoid;

inline constexpr double kGeluRoot = 0.79788456080286535588;  ///< sqrt(2 / pi)
inline constexpr double kGeluCube = 0.044715;

/// GELU's 2 u with u = sqrt(2 / pi) (x + 0.044715 x^3), so that 0.5 (1 + tanh(u)) = sigmoid(2 u), which does not cancel for x < 0.
template <class Real>
Real gelu_argument(const Real& x) {
  return Real(2.0 * kGeluRoot) * x * (Real(1.0) + Real(kGeluCube) * x * x);
}

template <class Real>
Real gelu(const Real& x) {
  return x * sigmoid(gelu_argument(x));
}

/// d gelu / dx = s + x s (1 - s) d(2u)/dx; 1 - s = sigmoid(-2u).
template <class Real>
Real gelu_slope(const Real& x) {
  const Real argument = gelu_argument(x);
  const Real s = sigmoid(argument);
  const Real argument_slope = Real(2.0 * kGeluRoot) * (Real(1.0) + Real(3.0 * kGeluCube) * x * x);
  return s + x * s * sigmoid(-argument) * argument_slope;
}

template <class Real>
Real tanh_gradient(const Real& dy, const Real& y) {
  return dy * (Real(1.0) - y * y);
}

/// out[r] = in[index[r]], zeros where the index is -1.
inline std::vector<double> gather_rows(const std::vector<double>& in, const std::vector<std::int32_t>& index, std::size_t columns) {
  std::vector<double> out(index.size() * columns, 0.0);
  for (std::size_t r = 0; r < index.size(); ++r) {
    if (index[r] < 0) continue;
    for (std::size_t c = 0; c < columns; ++c) out[r * columns + c] = in[static_cast<std::size_t>(index[r]) * columns + c];
  }
  return out;
}

/// out[index[r]] += in[r], -1 skips.
template <class Real>
std::vector<Real> scatter_add_rows(std::vector<Real> out, const std::vector<Real>& in, const std::vector<std::int32_t>& index,
                                   std::size_t columns) {
  for (std::size_t r = 0; r < index.size(); ++r) {
    if (index[r] < 0) continue;
    for (std::size_t c = 0; c < columns; ++c) {
      Real& to = out[static_cast<std::size_t>(index[r]) * columns + c];
      to = to + in[r * columns + c];
    }
  }
  return out;
}

}  // namespace flashbert::reference
