#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "support/compare.h"

namespace flashbert::reference {

/// Checks a gradient against central differences of a scalar function in double. With step h = 1e-4 the truncation error is about
/// h^2 / 6 times the third derivative and the rounding error about 2^-53 |f| / h: with functions of size and derivatives around 10 both
/// stay below 1e-6 of the largest gradient, while a wrong factor or sign shows in the first digit.
inline void expect_gradient(const std::function<double(const std::vector<double>&)>& function, const std::vector<double>& at,
                            const std::vector<double>& gradient, const char* what) {
  constexpr double kStep = 1e-4;
  constexpr double kRelative = 1e-6;
  ASSERT_EQ(gradient.size(), at.size()) << what;
  std::vector<double> differences;
  double largest = 0.0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    std::vector<double> above = at;
    std::vector<double> below = at;
    above[i] += kStep;
    below[i] -= kStep;
    differences.push_back((function(above) - function(below)) / (2.0 * kStep));
    largest = std::max(largest, std::abs(differences.back()));
  }
  ASSERT_GT(largest, 0.0) << what << " does not matter to the function";
  testing::expect_close(gradient, differences, {.absolute = kRelative * std::max(1.0, largest)}, what);
}

/// The scalar that gradients are taken of: sum of weights times results.
inline double weighted(const std::vector<double>& results, const std::vector<double>& weights) {
  double sum = 0.0;
  for (std::size_t i = 0; i < results.size(); ++i) sum += results[i] * weights[i];
  return sum;
}

}  // namespace flashbert::reference
