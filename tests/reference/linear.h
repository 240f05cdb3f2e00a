#pragma once

#include <cstddef>
#include <vector>

#include "reference/elementwise.h"
#include "support/estimate.h"

namespace flashbert::reference {

using testing::Sum;

/// y (T, N) = x (T, K) W (N, K)^T + bias, and its gradients, by their definitions. Real is double or Estimate.
struct LinearExtents {
  std::size_t rows = 0, in = 0, out = 0;
};

template <class Real>
std::vector<Real> linear_forward(const LinearExtents& e, const std::vector<Real>& x, const std::vector<Real>& weight,
                                 const std::vector<Real>& bias) {
  std::vector<Real> y(e.rows * e.out);
  for (std::size_t t = 0; t < e.rows; ++t) {
    for (std::size_t n = 0; n < e.out; ++n) {
      Sum<Real> sum;
      for (std::size_t k = 0; k < e.in; ++k) sum.add(x[t * e.in + k] * weight[n * e.in + k]);
      if (!bias.empty()) sum.add(bias[n]);
      y[t * e.out + n] = sum.total();
    }
  }
  return y;
}

/// dx = old + dy W; old may be empty.
template <class Real>
std::vector<Real> linear_input_gradient(const LinearExtents& e, const std::vector<Real>& dy, const std::vector<Real>& weight,
                                        const std::vector<Real>& old) {
  std::vector<Real> dx(e.rows * e.in);
  for (std::size_t t = 0; t < e.rows; ++t) {
    for (std::size_t k = 0; k < e.in; ++k) {
      Sum<Real> sum;
      for (std::size_t n = 0; n < e.out; ++n) sum.add(dy[t * e.out + n] * weight[n * e.in + k]);
      if (!old.empty()) sum.add(old[t * e.in + k]);
      dx[t * e.in + k] = sum.total();
    }
  }
  return dx;
}

/// y = gelu(keep(x W^T + bias)): keep is the rounding to y's type that what goes into GELU may have.
template <class Real, class Keep>
std::vector<Real> linear_gelu_forward(const LinearExtents& e, const std::vector<Real>& x, const std::vector<Real>& weight,
                                      const std::vector<Real>& bias, const Keep& keep) {
  std::vector<Real> y = linear_forward(e, x, weight, bias);
  for (Real& value : y) value = gelu(keep(value));
  return y;
}

/// dx = keep(dy W) gelu'(before_gelu).
template <class Real, class Keep>
std::vector<Real> linear_gelu_input_gradient(const LinearExtents& e, const std::vector<Real>& dy, const std::vector<Real>& weight,
                                             const std::vector<Real>& before_gelu, const Keep& keep) {
  std::vector<Real> dx = linear_input_gradient(e, dy, weight, {});
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = keep(dx[i]) * gelu_slope(before_gelu[i]);
  return dx;
}

/// old + the sum of each column of a matrix; old may be empty.
template <class Real>
std::vector<Real> column_sums(const std::vector<Real>& matrix, std::size_t columns, const std::vector<Real>& old) {
  std::vector<Real> sums(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    Sum<Real> sum;
    for (std::size_t i = c; i < matrix.size(); i += columns) sum.add(matrix[i]);
    if (!old.empty()) sum.add(old[c]);
    sums[c] = sum.total();
  }
  return sums;
}

template <class Real>
struct LinearParameterGradients {
  std::vector<Real> weight, bias;
};

/// Added to old.weight and old.bias where these are not empty.
template <class Real>
LinearParameterGradients<Real> linear_weight_gradient(const LinearExtents& e, const std::vector<Real>& dy, const std::vector<Real>& x,
                                                      const LinearParameterGradients<Real>& old) {
  LinearParameterGradients<Real> gradients{std::vector<Real>(e.out * e.in), std::vector<Real>(e.out)};
  for (std::size_t n = 0; n < e.out; ++n) {
    for (std::size_t k = 0; k < e.in; ++k) {
      Sum<Real> sum;
      for (std::size_t t = 0; t < e.rows; ++t) sum.add(dy[t * e.out + n] * x[t * e.in + k]);
      if (!old.weight.empty()) sum.add(old.weight[n * e.in + k]);
      gradients.weight[n * e.in + k] = sum.total();
    }
    Sum<Real> sum;
    for (std::size_t t = 0; t < e.rows; ++t) sum.add(dy[t * e.out + n]);
    if (!old.bias.empty()) sum.add(old.bias[n]);
    gradients.bias[n] = sum.total();
  }
  return gradients;
}

}  // namespace flashbert::reference
