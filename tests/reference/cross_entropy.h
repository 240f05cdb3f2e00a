#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/estimate.h"

namespace flashbert::reference {

using testing::exponential;
using testing::logarithm;
using testing::Sum;
using testing::value_of;

struct CrossEntropyExtents {
  std::size_t rows = 0, columns = 0, classes = 0;
};

template <class Real>
struct CrossEntropy {
  std::vector<Real> nll;  ///< 0 in ignored rows
  std::vector<Real> gradient;
  std::int64_t correct = 0, counted = 0;
};

/// Softmax cross-entropy over the first `classes` columns; label -1 is ignored. gradient = scale (softmax - onehot).
template <class Real>
CrossEntropy<Real> softmax_cross_entropy(const CrossEntropyExtents& e, const std::vector<Real>& logits,
                                         const std::vector<std::int32_t>& labels, const Real& scale) {
  CrossEntropy<Real> result{std::vector<Real>(e.rows), std::vector<Real>(e.rows * e.columns), 0, 0};
  for (std::size_t row = 0; row < e.rows; ++row) {
    if (labels[row] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[row]);
    const Real* const x = logits.data() + row * e.columns;
    std::size_t best = 0;
    for (std::size_t c = 1; c < e.classes; ++c) best = value_of(x[c]) > value_of(x[best]) ? c : best;
    Sum<Real> sum;
    for (std::size_t c = 0; c < e.classes; ++c) sum.add(exponential(x[c] - x[best]));
    const Real total = sum.total();
    result.nll[row] = logarithm(total) - (x[label] - x[best]);
    result.correct += best == label ? 1 : 0;
    ++result.counted;
    for (std::size_t c = 0; c < e.classes; ++c) {
      const Real probability = exponential(x[c] - x[best]) / total;
      result.gradient[row * e.columns + c] = scale * probability - (c == label ? scale : Real(0.0));
    }
  }
  return result;
}

}  // namespace flashbert::reference
