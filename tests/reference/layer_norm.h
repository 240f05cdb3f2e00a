#pragma once

#include <cstddef>
#include <vector>

#include "support/estimate.h"

namespace flashbert::reference {

using testing::square_root;
using testing::Sum;

/// BERT's epsilon (google-research/bert modeling.py), as an f32.
inline constexpr double kNormEps = static_cast<double>(1e-12F);

/// Layer normalisation over the last axis of (rows, hidden), by its definition.
struct NormExtents {
  std::size_t rows = 0, hidden = 0;
};

template <class Real>
struct NormForward {
  std::vector<Real> y, mean, rstd;
};

template <class Real>
NormForward<Real> layer_norm_forward(const NormExtents& e, const std::vector<Real>& z, const std::vector<Real>& gamma,
                                     const std::vector<Real>& beta, double eps) {
  NormForward<Real> result{std::vector<Real>(e.rows * e.hidden), std::vector<Real>(e.rows), std::vector<Real>(e.rows)};
  const Real count = static_cast<double>(e.hidden);
  for (std::size_t row = 0; row < e.rows; ++row) {
    const Real* const x = z.data() + row * e.hidden;
    Sum<Real> sum;
    for (std::size_t c = 0; c < e.hidden; ++c) sum.add(x[c]);
    const Real mean = sum.total() / count;
    Sum<Real> squares;
    for (std::size_t c = 0; c < e.hidden; ++c) squares.add((x[c] - mean) * (x[c] - mean));
    const Real rstd = Real(1.0) / square_root(squares.total() / count + Real(eps));
    for (std::size_t c = 0; c < e.hidden; ++c) result.y[row * e.hidden + c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    result.mean[row] = mean;
    result.rstd[row] = rstd;
  }
  return result;
}

template <class Real>
struct NormBackward {
  std::vector<Real> dz, dgamma, dbeta;
};

/// What backward reads from forward.
template <class Real>
struct NormSaved {
  std::vector<Real> z, mean, rstd, gamma;
};

/// dz = rstd (g - mean(g) - x_hat mean(g x_hat)) with g = dy gamma and x_hat = (z - mean) rstd.
template <class Real>
NormBackward<Real> layer_norm_backward(const NormExtents& e, const std::vector<Real>& dy, const NormSaved<Real>& saved) {
  NormBackward<Real> result{std::vector<Real>(e.rows * e.hidden), std::vector<Real>(e.hidden), std::vector<Real>(e.hidden)};
  const Real count = static_cast<double>(e.hidden);
  std::vector<Sum<Real>> dgamma(e.hidden);
  std::vector<Sum<Real>> dbeta(e.hidden);
  for (std::size_t row = 0; row < e.rows; ++row) {
    const auto x_hat = [&](std::size_t c) { return (saved.z[row * e.hidden + c] - saved.mean[row]) * saved.rstd[row]; };
    Sum<Real> sum;
    Sum<Real> products;
    for (std::size_t c = 0; c < e.hidden; ++c) {
      const Real& gradient = dy[row * e.hidden + c];
      sum.add(gradient * saved.gamma[c]);
      products.add(gradient * saved.gamma[c] * x_hat(c));
      dgamma[c].add(gradient * x_hat(c));
      dbeta[c].add(gradient);
    }
    const Real mean_gradient = sum.total() / count;
    const Real mean_product = products.total() / count;
    for (std::size_t c = 0; c < e.hidden; ++c) {
      const std::size_t i = row * e.hidden + c;
      result.dz[i] = (dy[i] * saved.gamma[c] - mean_gradient - x_hat(c) * mean_product) * saved.rstd[row];
    }
  }
  for (std::size_t c = 0; c < e.hidden; ++c) {
    result.dgamma[c] = dgamma[c].total();
    result.dbeta[c] = dbeta[c].total();
  }
  return result;
}

}  // namespace flashbert::reference
