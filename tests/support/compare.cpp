#include "support/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace flashbert::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How many limits apart two numbers are; above 1 is a failure.
double limits_apart(double got, double want, double limit) {
  if (got == want) return 0.0;
  if (std::isnan(got) || std::isnan(want) || std::isnan(limit)) return kInfinity;
  const double error = std::abs(got - want);
  if (!std::isfinite(error)) return kInfinity;
  if (limit > 0.0) return error / limit;
  return kInfinity;
}

template <class Want, class Limit>
::testing::AssertionResult compare(const std::vector<double>& got, std::size_t wanted_size, const Want& want, const Limit& limit) {
  if (got.size() != wanted_size) {
    return ::testing::AssertionFailure() << fmt::format("got {} elements, want {}", got.size(), wanted_size);
  }
  std::size_t worst = 0;
  std::size_t outside = 0;
  double worst_apart = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double apart = limits_apart(got[i], want(i), limit(i));
    if (apart > 1.0) ++outside;
    if (apart > worst_apart) {
      worst_apart = apart;
      worst = i;
    }
  }
  if (outside == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << fmt::format(
             "{} of {} elements are outside; worst is element {}: got {:.9g}, want {:.9g}, error {:.3g}, limit {:.3g}", outside, got.size(),
             worst, got[worst], want(worst), std::abs(got[worst] - want(worst)), limit(worst));
}

}  // namespace

::testing::AssertionResult close(const std::vector<double>& got, const std::vector<double>& want, const Tolerance& tolerance) {
  return compare(
      got, want.size(), [&](std::size_t i) { return want[i]; }, [&](std::size_t i) { return tolerance.limit(want[i]); });
}

::testing::AssertionResult close(const std::vector<double>& got, const std::vector<Estimate>& want) {
  return compare(
      got, want.size(), [&](std::size_t i) { return want[i].value; }, [&](std::size_t i) { return want[i].error; });
}

double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  double largest = got.size() == want.size() ? 0.0 : kInfinity;
  for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    largest = std::isnan(error) ? kInfinity : std::max(largest, error);
  }
  return largest;
}

double total_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return kInfinity;
  double squares = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) squares += (got[i] - want[i]) * (got[i] - want[i]);
  return std::isnan(squares) ? kInfinity : std::sqrt(squares);
}

std::vector<double> values_of(const std::vector<Estimate>& estimates) {
  std::vector<double> values;
  values.reserve(estimates.size());
  for (const Estimate& estimate : estimates) values.push_back(estimate.value);
  return values;
}

}  // namespace flashbert::testing
