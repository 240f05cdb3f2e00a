#include "report/rcp.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace flashbert {
namespace {

/// Published with mlcommons/logging: samples summed over the runs that remain without the fastest and the slowest one, and the population's
/// deviation over all runs and over those that remain. Rulesets 2.1.0 to 5.0.0 share their points.
struct PublishedPoint {
  std::int64_t global_batch;
  int runs;
  double sum, deviation, trimmed_deviation;
  RulesetSpan rulesets;
};
constexpr PublishedPoint kPublished[] = {
    {256, 20, 45885952, 218406.13406770426, 197921.35205183065, {"1.0.0", "5.0.0"}},
    {448, 20, 47190528, 169650.35400422834, 134649.32133838956, {"1.0.0", "2.0.0"}},
    {448, 23, 50702848, 197392.47653603306, 167653.92027891532, {"2.1.0", "5.0.0"}},
    {1536, 20, 49973008, 82207.5271103565, 68238.33477481338, {"1.0.0", "5.0.0"}},
    {3072, 20, 49760976, 166119.33957778665, 138500.15317761284, {"1.0.0", "5.0.0"}},
    {4096, 20, 51191808, 116600.1061653033, 101265.03466756045, {"1.1.0", "5.0.0"}},
    {4608, 20, 50365440, 130963.70526218323, 102239.87480430519, {"2.0.0", "5.0.0"}},
    {6144, 20, 59744256, 146691.13630155026, 103450.46966006915, {"1.0.0", "5.0.0"}},
    {6912, 20, 64834560, 121792.77701013308, 94797.460219143, {"1.0.0", "5.0.0"}},
    {8192, 20, 75350016, 88430.92304030304, 68047.86268502487, {"1.0.0", "5.0.0"}},
    {8704, 20, 76926720, 134042.40427566197, 118995.0691788903, {"1.1.0", "5.0.0"}},
    {12288, 20, 88768512, 217327.44530592542, 186086.46867518337, {"1.0.0", "1.0.0"}},
    {12288, 20, 80371200, 88564.04543605717, 71031.99154058841, {"1.1.0", "5.0.0"}},
    {13056, 20, 83616000, 179017.32403317842, 118216.89144205333, {"1.1.0", "5.0.0"}},
    {16384, 20, 99097600, 144642.70949674584, 121538.70091070469, {"2.0.0", "5.0.0"}},
};

constexpr int kDroppedRuns = 2;  // the fastest and the slowest one
constexpr int kSubmissionRuns = 10;
/// An interpolated point stands for as many runs as a reference must have.
constexpr int kInterpolatedRuns = 2 * kSubmissionRuns;

RcpPoint interpolate(double batch, const RcpPoint& low, const RcpPoint& high) {
  const double share = (batch - static_cast<double>(low.global_batch)) / static_cast<double>(high.global_batch - low.global_batch);
  RcpPoint point{.global_batch = static_cast<std::int64_t>(batch), .runs = kInterpolatedRuns};
  point.mean = low.mean + share * (high.mean - low.mean);
  point.deviation = low.deviation + share * (high.deviation - low.deviation);
  point.min_mean = lowest_accepted_mean(point.mean, point.deviation, kInterpolatedRuns);
  return point;
}

/// Marks what remains: nothing below the batch of the fastest point, then no point that its neighbours' line undercuts. One upward sweep
/// without steps back, so not a convex hull: this is what the official checker does.
void prune(std::vector<RcpPoint>& points, RcpMethod method) {
  const auto height = [method](const RcpPoint& point) { return method == RcpMethod::kToday ? point.mean : point.min_mean; };
  const auto fastest =
      std::min_element(points.begin(), points.end(), [&](const RcpPoint& a, const RcpPoint& b) { return height(a) < height(b); });
  std::vector<RcpPoint*> left;
  for (auto point = fastest; point != points.end(); ++point) left.push_back(&*point);
  for (std::size_t i = 1; i + 1 < left.size();) {
    const RcpPoint line = interpolate(static_cast<double>(left[i]->global_batch), *left[i - 1], *left[i + 1]);
    if (height(*left[i]) > height(line)) {
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (RcpPoint* point : left) point->used = true;
}

RcpReference reference_of(RcpMatch match, double batch, const RcpPoint& point) {
  return {.match = match, .global_batch = batch, .mean = point.mean, .deviation = point.deviation, .min_mean = point.min_mean};
}

}  // namespace

double lowest_accepted_mean(double mean, double deviation, int reference_runs) {
  constexpr double kAlpha = 0.05;
  const double n1 = reference_runs, n2 = kSubmissionRuns - kDroppedRuns;
  const boost::math::students_t distribution(n1 + n2 - 2.0);
  return mean - boost::math::quantile(boost::math::complement(distribution, kAlpha)) * deviation * std::sqrt(1.0 / n1 + 1.0 / n2);
}

std::vector<RcpPoint> rcp_points(Ruleset ruleset, RcpMethod method) {
  std::vector<RcpPoint> points;
  for (const PublishedPoint& published : kPublished) {
    if (!published.rulesets.holds(ruleset)) continue;
    const int counted = published.runs - kDroppedRuns;
    RcpPoint point{.global_batch = published.global_batch, .runs = published.runs, .mean = published.sum / counted};
    point.deviation = method == RcpMethod::kToday ? published.deviation : published.trimmed_deviation;
    point.min_mean = lowest_accepted_mean(point.mean, point.deviation, counted);
    points.push_back(point);
  }
  prune(points, method);
  return points;
}

RcpReference rcp_reference(Ruleset ruleset, double global_batch, RcpMethod method) {
  std::vector<RcpPoint> points = rcp_points(ruleset, method);
  std::erase_if(points, [](const RcpPoint& point) { return !point.used; });
  const auto batch_of = [](const RcpPoint& point) { return static_cast<double>(point.global_batch); };
  if (global_batch < batch_of(points.front())) return reference_of(RcpMatch::kBelow, batch_of(points.front()), points.front());
  const auto next = std::find_if(points.begin(), points.end(), [&](const RcpPoint& point) { return batch_of(point) >= global_batch; });
  if (next == points.end()) return {};
  if (batch_of(*next) == global_batch) return reference_of(RcpMatch::kExact, global_batch, *next);
  return reference_of(RcpMatch::kInterpolated, global_batch, interpolate(global_batch, *(next - 1), *next));
}

RcpVerdict rcp_verdict(const RcpReference& reference, double olympic_samples) {
  if (reference.match == RcpMatch::kAbove) return RcpVerdict::kMissing;
  if (olympic_samples >= reference.min_mean) return RcpVerdict::kPass;
  return reference.match == RcpMatch::kBelow ? RcpVerdict::kMissing : RcpVerdict::kFail;
}

double rcp_scaling_factor(const RcpReference& reference, double olympic_samples) { return std::max(1.0, reference.mean / olympic_samples); }

}  // namespace flashbert
