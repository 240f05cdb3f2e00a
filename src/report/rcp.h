#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "report/mlperf_rules.h"

namespace flashbert {

/// How the scatter of the reference's runs is taken: today's checker over all of them; until mid 2024, so in the rounds up to 4.0, without
/// the fastest and the slowest one, which asks for more samples. Pruning compared lowest accepted means then, means now.
enum class RcpMethod { kToday, kUntil2024 };

/// A reference convergence point: samples that the reference needed at a batch size.
struct RcpPoint {
  std::int64_t global_batch = 0;
  int runs = 0;
  double mean = 0.0;       ///< without the fastest and the slowest run
  double deviation = 0.0;  ///< of the population, by the method
  double min_mean = 0.0;   ///< lowest mean of ten runs, less the fastest and the slowest, that passes
  bool used = false;       ///< still there after pruning
};
/// All points of a ruleset in the order of their batches.
std::vector<RcpPoint> rcp_points(Ruleset ruleset, RcpMethod method);

enum class RcpMatch {
  kExact,
  kInterpolated,
  kBelow,  ///< smaller than any point: compared with the smallest one
  kAbove,  ///< larger than any point: none to compare with
};

/// What a set with this batch is compared with; of kAbove only `match` has a meaning.
struct RcpReference {
  RcpMatch match = RcpMatch::kAbove;
  double global_batch = 0.0, mean = 0.0, deviation = 0.0, min_mean = 0.0;
};
RcpReference rcp_reference(Ruleset ruleset, double global_batch, RcpMethod method);

/// The lowest mean that a one-sided two-sample t-test (5 %, equal deviations) of 8 runs against reference_runs does not call faster:
/// mean - t(0.95, n1 + n2 - 2) deviation sqrt(1 / n1 + 1 / n2).
double lowest_accepted_mean(double mean, double deviation, int reference_runs);

enum class RcpVerdict { kPass, kFail, kMissing };
/// Below the smallest point a set that is too fast has no reference: missing, not failed.
RcpVerdict rcp_verdict(const RcpReference& reference, double olympic_samples);

/// Times of a set that converged faster than the reference's mean are multiplied by this; 1 where it did not.
double rcp_scaling_factor(const RcpReference& reference, double olympic_samples);

}  // namespace flashbert
