#include "bench/bench.h"

#include <algorithm>

#include "comm/ranks.h"
#include "core/clock.h"
#include "core/log.h"
#include "kernels/device_peak.h"

namespace flashbert {

BenchMachine bench_machine(const BenchOptions& options) {
  const Backend backend = bench_backend(options);
  spdlog::info("{}", backend.note);
  return {.precision = std::string(name_of(backend.compute)), .instruction_set = backend.context->arithmetic(), .threads = backend.threads};
}

Backend bench_backend(const BenchOptions& options) {
  TrainSettings settings;
  settings.threads = options.threads;
  settings.precision = options.precision;
  return make_backend(settings, *make_self_ranks());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double time_median(double seconds, const std::function<void()>& f) {
  f();
  std::vector<double> times;
  for (const auto start = Clock::now(); times.size() < 5 || seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    f();
    times.push_back(seconds_since(begin));
  }
  return median(times);
}

double peak_flops(const Backend& backend) { return measured_peak_flops(*backend.context, backend.compute); }

BenchRow product_row(const std::string& name, double seconds, double flops, double peak) {
  return {name, {{"ms", 1e3 * seconds}, {"gflops", flops / seconds * 1e-9}, {"share_of_peak", flops / seconds / peak}}};
}

}  // namespace flashbert
