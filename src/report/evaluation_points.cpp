#include "report/evaluation_points.h"

namespace flashbert {

std::int64_t mlperf_evaluation_interval(std::int64_t global_batch) {
  constexpr std::int64_t kGrid = 25'000;
  return (23'023 * global_batch + 300'000'000) / 50'000'000 * kGrid;
}

std::int64_t evaluation_step(std::int64_t k, std::int64_t interval, std::int64_t global_batch) {
  return (k * interval + global_batch - 1) / global_batch;
}

}  // namespace flashbert
