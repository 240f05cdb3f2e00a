#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "support/estimate.h"

namespace flashbert::reference {

using testing::square_root;
using testing::Sum;
using testing::value_of;

template <class Real>
struct LambState {
  std::vector<Real> weight, m, v;
};

template <class Real>
struct LambRates {
  Real learning_rate, bias_correction1, bias_correction2, clip_scale;
  Real beta1, beta2, epsilon, weight_decay;
  bool decay = true;
};

template <class Real>
struct LambResult {
  LambState<Real> state;
  Real weight_norm, update_norm, trust_ratio;
};

template <class Real>
Real norm_of(const std::vector<Real>& x) {
  Sum<Real> squares;
  for (const Real& value : x) squares.add(value * value);
  return square_root(squares.total());
}

/// One LAMB update of one tensor: You et al. 2020, algorithm 2, without bounds on the trust ratio; 0 / 0 in the
/// direction counts 0.
template <class Real>
LambResult<Real> lamb_update(const LambRates<Real>& r, const LambState<Real>& old, const std::vector<Real>& gradient) {
  LambResult<Real> result;
  result.state = old;
  std::vector<Real> update;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const Real g = r.clip_scale * gradient[i];
    Real& m = result.state.m[i];
    Real& v = result.state.v[i];
    m = r.beta1 * m + (Real(1.0) - r.beta1) * g;
    v = r.beta2 * v + (Real(1.0) - r.beta2) * (g * g);
    const Real denominator = square_root(v / r.bias_correction2) + r.epsilon;
    const Real direction = value_of(denominator) == 0.0 ? Real(0.0) : (m / r.bias_correction1) / denominator;
    update.push_back(r.decay ? direction + r.weight_decay * old.weight[i] : direction);
  }
  result.weight_norm = norm_of(old.weight);
  result.update_norm = norm_of(update);
  const bool adapts = r.decay && value_of(result.weight_norm) > 0.0 && value_of(result.update_norm) > 0.0;
  result.trust_ratio = adapts ? result.weight_norm / result.update_norm : Real(1.0);
  for (std::size_t i = 0; i < update.size(); ++i) {
    result.state.weight[i] = old.weight[i] - result.trust_ratio * r.learning_rate * update[i];
  }
  return result;
}

inline double global_norm(const std::vector<std::vector<double>>& tensors) {
  double squares = 0.0;
  for (const std::vector<double>& tensor : tensors) {
    for (const double value : tensor) squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace flashbert::reference
