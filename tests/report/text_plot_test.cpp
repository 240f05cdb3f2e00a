#include "report/text_plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace flashbert::testing {
namespace {

std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> rows;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    rows.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return rows;
}

std::int64_t stars(const std::string& text) { return std::count(text.begin(), text.end(), '*'); }

TEST(TextPlot, IsAsciiOfTheAskedSize) {
  const std::string text = plot_text({.points = {{100, 0.2}, {200, 0.5}, {400, 0.7}}, .target = 0.72}, 40, 10);
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  const auto rows = rows_of(text);
  EXPECT_EQ(rows.size(), 13U);  // title, ten rows, axis, its numbers
  EXPECT_EQ(rows[11], "       +" + std::string(40, '-'));
  EXPECT_NE(rows[12].find("400 samples"), std::string::npos);
}

TEST(TextPlot, PointsRiseToTheRightAndTheTargetIsMarkedOnce) {
  const std::string text = plot_text({.points = {{100, 0.1}, {400, 0.7}}, .target = 0.4}, 40, 12);
  const auto rows = rows_of(text);
  const auto row_with = [&](const char* part) {
    return std::find_if(rows.begin(), rows.end(), [&](const std::string& row) { return row.find(part) != std::string::npos; }) -
           rows.begin();
  };
  EXPECT_EQ(stars(text), 2);
  const std::size_t upper = rows[static_cast<std::size_t>(row_with("*"))].find('*');
  EXPECT_EQ(upper, 8U + 39U);  // the last column after the axis
  EXPECT_LT(row_with("*"), row_with("target 0.400"));
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const std::string& row) { return row.find("target") != std::string::npos; }), 1);
}

TEST(TextPlot, HandlesNoPointOnePointAndNan) {
  EXPECT_EQ(stars(plot_text({.points = {}, .target = 0.72})), 0);
  EXPECT_EQ(stars(plot_text({.points = {{0, 0.0}}, .target = 0.0})), 1);
  EXPECT_EQ(stars(plot_text({.points = {{448, 0.3}}, .target = 0.72})), 1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(stars(plot_text({.points = {{448, nan}, {896, 0.2}}, .target = 0.72})), 1);
}

TEST(TextPlot, SizesBelowTheSmallestAreRaised) { EXPECT_EQ(rows_of(plot_text({.points = {{1, 0.5}}, .target = 0.7}, 0, 0)).size(), 5U); }

}  // namespace
}  // namespace flashbert::testing
