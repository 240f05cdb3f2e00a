// Start values by their statistics: a truncated normal distribution, independent from tensor to tensor and seed to seed.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model_fixture.h"

namespace flashbert::testing {
namespace {

/// Large enough that every matrix has thousands of elements.
constexpr ReferenceShape kLarge = {.layers = 2, .hidden = 64, .heads = 4, .intermediate = 96, .vocab = 203, .positions = 48, .segments = 2};

bool is_vector(const std::string& name) { return name.ends_with("bias") || name.find("LayerNorm") != std::string::npos; }

NamedValues start_values(std::uint64_t seed) {
  ModelFixture model({.shape = kLarge, .global_batch = 1, .micro_batch = 1});
  model.engine().model().parameters().initialise(model.ops(), seed);
  NamedValues values;
  for (std::size_t i = 0; i < model.table().parameters().size(); ++i) values[model.table().parameters()[i].name] = model.master(i);
  return values;
}

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// Deviation of a standard normal cut at two deviations: 1 - 4 phi(2) / (2 Phi(2) - 1), rooted: 0.8796.
double truncated_deviation() {
  const double density = std::exp(-2.0) / std::sqrt(2.0 * std::numbers::pi);
  return std::sqrt(1.0 - 4.0 * density / (2.0 * normal_below(2.0) - 1.0));
}

TEST(StartValues, VectorsAreOneOrZero) {
  for (const auto& [name, values] : start_values(3)) {
    if (!is_vector(name)) continue;
    const double want = name.ends_with("LayerNorm.weight") ? 1.0 : 0.0;
    for (const double value : values) ASSERT_EQ(value, want) << name;
  }
}

TEST(StartValues, MatricesFollowANormalDistributionOf2PercentCutAtTwoDeviations) {
  const double deviation = 0.02 * truncated_deviation();
  for (const auto& [name, values] : start_values(3)) {
    if (is_vector(name)) continue;
    const double n = static_cast<double>(values.size());
    double sum = 0.0;
    double squares = 0.0;
    double largest = 0.0;
    for (const double value : values) {
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::abs(value));
    }
    // Six standard errors: deviation / sqrt(n) of the mean; the variance's is at most variance sqrt(2 / n), since the cut has less
    // kurtosis.
    EXPECT_NEAR(sum / n, 0.0, 6.0 * deviation / std::sqrt(n)) << name;
    EXPECT_NEAR(squares / n, deviation * deviation, 6.0 * deviation * deviation * std::sqrt(2.0 / n)) << name;
    EXPECT_LT(largest, 0.04) << name;
  }
}

TEST(StartValues, FillTheCellsOfTheDistributionEvenly) {
  // All matrices together, in 40 cells of equal probability; the tail is that of chi-square with 39 degrees of freedom, mean 39,
  // variance 78.
  constexpr std::size_t kCells = 40;
  std::vector<double> counts(kCells, 0.0);
  double n = 0.0;
  const double cut = normal_below(-2.0);
  for (const auto& [name, values] : start_values(8)) {
    if (is_vector(name)) continue;
    for (const double value : values) {
      const double quantile = (normal_below(value / 0.02) - cut) / (1.0 - 2.0 * cut);
      ++counts[std::min(kCells - 1, static_cast<std::size_t>(std::max(0.0, quantile) * kCells))];
      ++n;
    }
  }
  double statistic = 0.0;
  for (const double count : counts) statistic += (count - n / kCells) * (count - n / kCells) / (n / kCells);
  EXPECT_LT(statistic, 39.0 + 6.0 * std::sqrt(78.0));
}

/// Correlation of the common first elements; of independent values it has deviation 1 / sqrt(n).
void expect_independent(const Values& x, const Values& y, const std::string& what) {
  const std::size_t n = std::min(x.size(), y.size());
  double products = 0.0;
  double x_squares = 0.0;
  double y_squares = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    products += x[i] * y[i];
    x_squares += x[i] * x[i];
    y_squares += y[i] * y[i];
  }
  EXPECT_LT(std::abs(products) / std::sqrt(x_squares * y_squares), 6.0 / std::sqrt(static_cast<double>(n))) << what;
}

TEST(StartValues, AreIndependentBetweenTensorsSeedsAndRows) {
  const NamedValues values = start_values(3);
  const NamedValues others = start_values(4);
  const NamedValues high = start_values(3 + (std::uint64_t{1} << 32));
  for (const auto& [name, x] : values) {
    if (is_vector(name)) continue;
    for (const auto& [other, y] : values) {
      if (other > name && !is_vector(other)) expect_independent(x, y, name + " and " + other);
    }
    expect_independent(x, others.at(name), name + " under another seed");
    expect_independent(x, high.at(name), name + " under a seed that differs above 32 bits");
    expect_independent(x, Values(x.begin() + 1, x.end()), name + " and its next elements");
    expect_independent(x, Values(x.begin() + 64, x.end()), name + " and its next rows");
  }
}

TEST(StartValues, AreThoseOfThePublishedRule) {
  // docs/metrics.md: Box-Muller from two words of Philox; counter (element low, element high, parameter, draw), key seed xor constant. The
  // word embeddings are parameter 0.
  constexpr std::uint64_t kSeed = (std::uint64_t{6} << 32) + 3;
  const Values words = start_values(kSeed).at("bert.embeddings.word_embeddings.weight");
  for (std::uint32_t element = 0; element < 500; ++element) {
    for (std::uint32_t draw = 0;; ++draw) {
      const auto random = reference::philox4x32({element, 0, 0, draw}, kSeed ^ 0x9d6c5f1e2b37a481ULL);
      const double radius = std::sqrt(-2.0 * std::log((random[0] + 0.5) / 4294967296.0));
      const double value = radius * std::cos(2.0 * std::numbers::pi * ((random[1] + 0.5) / 4294967296.0));
      if (std::abs(value) >= 2.0) continue;
      ASSERT_EQ(words[element], static_cast<double>(static_cast<float>(0.02 * value))) << element;
      break;
    }
  }
}

TEST(StartValues, AreTheSameForTheSameSeed) { EXPECT_EQ(start_values(3), start_values(3)); }

}  // namespace
}  // namespace flashbert::testing
