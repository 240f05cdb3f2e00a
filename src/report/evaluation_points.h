#pragma once

#include <cstdint>

namespace flashbert {

/// Samples between evaluations by the MLPerf rule (v1.0 to v5.0): floor(0.05 * (230.23 * global batch + 3,000,000) / 25,000) * 25,000.
/// In whole numbers: floor((23023 * batch + 300,000,000) / 50,000,000) * 25,000.
std::int64_t mlperf_evaluation_interval(std::int64_t global_batch);

/// Updates done when the k-th evaluation (k from 1) is due: ceil(k * interval / global batch). Never early; rounding does not add up.
std::int64_t evaluation_step(std::int64_t k, std::int64_t interval, std::int64_t global_batch);

}  // namespace flashbert
