#include <gtest/gtest.h>

#include <cmath>

#include "data/random_stream.h"
#include "data/sample_order.h"

namespace flashbert {
namespace {

TEST(OrderStreams, WindowsOfOneEpochHaveOrdersOfTheirOwn) {
  // Equal orders of 40 rows have the chance 1 / 40!.
  constexpr std::int64_t kRows = 40;
  const std::int64_t shards[] = {kRows, kRows};
  const SampleOrder order(7, shards, kRows);
  const auto rows_of = [&](std::int64_t index) {
    std::vector<std::int64_t> rows;
    for (const SampleId& id : order.window_at(index).order) rows.push_back(id.row);
    return rows;
  };
  EXPECT_NE(rows_of(0), rows_of(kRows));
}

TEST(OrderStreams, BothHalvesOfTheBitsCount) {
  // 641 divides 2^32 + 1: were both halves one word, every number below 641 would be 0.
  constexpr std::int64_t kCells = 641;
  constexpr double kExpected = 100.0;
  RandomStream random({.seed = 11, .domain = 0, .purpose = 0, .index = 0});
  std::vector<double> counts(kCells, 0.0);
  for (std::int64_t draw = 0; draw < kCells * static_cast<std::int64_t>(kExpected); ++draw) {
    counts[static_cast<std::size_t>(random.below(kCells))] += 1.0;
  }
  double chi_square = 0.0;
  for (const double count : counts) chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  // Mean 640 (degrees of freedom), variance twice that; six deviations.
  EXPECT_LT(chi_square, 640.0 + 6.0 * std::sqrt(2.0 * 640.0));
}

}  // namespace
}  // namespace flashbert
