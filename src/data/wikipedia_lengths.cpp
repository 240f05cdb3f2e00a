#include "data/wikipedia_lengths.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace flashbert {
namespace {

struct Knot {
  double length, percent;
};  ///< percent of the samples are at most this long
constexpr std::array<Knot, 25> kKnots = {{{4, 0},       {14, 0.16},   {16, 0.32},   {20, 0.77},   {24, 1.40},   {32, 3.59},   {40, 6.76},
                                          {48, 10.35},  {56, 14.03},  {64, 17.59},  {80, 23.85},  {96, 28.97},  {112, 33.24}, {128, 36.94},
                                          {160, 43.17}, {192, 48.34}, {224, 52.76}, {256, 56.63}, {288, 60.03}, {320, 63.08}, {384, 68.36},
                                          {448, 72.80}, {500, 75.94}, {511, 76.57}, {512, 100.0}}};
constexpr double kMeasuredAt = 512.0;
constexpr std::int64_t kShortest = 5;

double length_at_512(double percent) {
  for (std::size_t i = 1; i < kKnots.size(); ++i) {
    if (percent < kKnots[i].percent) {
      const double part = (percent - kKnots[i - 1].percent) / (kKnots[i].percent - kKnots[i - 1].percent);
      return kKnots[i - 1].length + part * (kKnots[i].length - kKnots[i - 1].length);
    }
  }
  return kMeasuredAt;
}

}  // namespace

std::int64_t wikipedia_length(double quantile, std::int64_t seq_len) {
  const double raw = std::ceil(length_at_512(quantile * 100.0));
  const auto scaled = static_cast<std::int64_t>(std::ceil(raw * static_cast<double>(seq_len) / kMeasuredAt));
  return std::clamp(scaled, std::min(kShortest, seq_len), seq_len);
}

std::int64_t masked_count(std::int64_t length, std::int64_t most) {
  // nearbyint rounds halves to even, as the reference's round() does.
  const auto wanted = static_cast<std::int64_t>(std::nearbyint(0.15 * static_cast<double>(length)));
  return std::clamp<std::int64_t>(wanted, 1, most);
}

}  // namespace flashbert
