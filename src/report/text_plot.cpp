#include "report/text_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flashbert {

std::string plot_text(const AccuracyCurve& curve, int width, int height) {
  width = std::max(width, 2);
  height = std::max(height, 2);
  std::vector<std::string> rows(static_cast<std::size_t>(height), std::string(static_cast<std::size_t>(width), ' '));
  double top = curve.target;
  std::int64_t last = 1;
  for (const auto& [samples, accuracy] : curve.points) {
    if (!std::isfinite(accuracy)) continue;
    top = std::max(top, accuracy);
    last = std::max(last, samples);
  }
  top = std::max(std::ceil(top * 10.0 + 0.5) / 10.0, 0.1);
  const auto row_of = [&](double accuracy) {
    const auto row = static_cast<int>(std::lround((1.0 - accuracy / top) * (height - 1)));
    return static_cast<std::size_t>(std::clamp(row, 0, height - 1));
  };
  const auto column_of = [&](std::int64_t samples) {
    return static_cast<std::size_t>(std::lround(static_cast<double>(samples) / static_cast<double>(last) * (width - 1)));
  };
  for (char& c : rows[row_of(curve.target)]) c = '-';
  for (const auto& [samples, accuracy] : curve.points) {
    if (std::isfinite(accuracy)) rows[row_of(accuracy)][column_of(samples)] = '*';
  }
  std::string text = "masked-LM accuracy\n";
  for (int row = 0; row < height; ++row) {
    const double value = top * (1.0 - static_cast<double>(row) / (height - 1));
    const bool labelled = row % 3 == 0 || row == height - 1;
    const bool is_target = static_cast<std::size_t>(row) == row_of(curve.target);
    text += fmt::format("{:>6} |{}{}\n", labelled ? fmt::format("{:.2f}", value) : "", rows[static_cast<std::size_t>(row)],
                        is_target ? fmt::format(" target {:.3f}", curve.target) : "");
  }
  text += fmt::format("{:>6} +{}\n", "", std::string(static_cast<std::size_t>(width), '-'));
  text += fmt::format("{:>6}  0{:>{}} samples\n", "", last, width - 1);
  return text;
}

}  // namespace flashbert
