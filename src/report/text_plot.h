#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace flashbert {

struct AccuracyCurve {
  std::vector<std::pair<std::int64_t, double>> points;  ///< (samples trained, accuracy), ascending
  double target = 0.0;
};

/// A plain-text picture in ASCII: '*' points, '-' the target, axes with numbers. Points that are not finite are left out. Width and
/// height are those of the field inside the axes, at least 2 each.
std::string plot_text(const AccuracyCurve& curve, int width = 64, int height = 14);

}  // namespace flashbert
