#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/estimate.h"
#include "support/tolerance.h"

namespace flashbert::testing {

/// Success when both have the same size and every |got - want| is within the tolerance; equal infinities are equal, a NaN on either
/// side fails. A failure names the worst element (most limits away from what is wanted) and how many are outside.
::testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want, const Tolerance& tolerance);
/// The same with each element's own bound.
::testing::AssertionResult close(const std::vector<double>& got, const std::vector<Estimate>& want);

inline void expect_close(const std::vector<double>& got, const std::vector<double>& want, const Tolerance& tolerance,
                         const std::string& what = {}) {
  EXPECT_TRUE(close(got, want, tolerance)) << what;
}
inline void expect_close(const std::vector<double>& got, const std::vector<Estimate>& want, const std::string& what = {}) {
  EXPECT_TRUE(close(got, want)) << what;
}

/// The largest |got - want| of two vectors of the same size; infinity when a NaN is among them.
double largest_error(const std::vector<double>& got, const std::vector<double>& want);
/// The Euclidean length of got - want.
double total_error(const std::vector<double>& got, const std::vector<double>& want);

std::vector<double> values_of(const std::vector<Estimate>& estimates);

}  // namespace flashbert::testing
