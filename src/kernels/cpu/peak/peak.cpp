#include "kernels/cpu/peak/peak.h"

#include <omp.h>

#include <algorithm>
#include <array>

#include "core/arena.h"
#include "core/clock.h"
#include "core/error.h"
#include "kernels/cpu/peak/bursts.h"

namespace flashbert::cpu {
namespace {

using Burst = double (*)(long, float*);

constexpr double kBurstSeconds = 2e-3;
constexpr std::int64_t kTriadElements = std::int64_t{16} << 20;  // 64 MiB an array and thread

void check_options(const PeakOptions& options) {
  check<ConfigError>(options.threads >= 1 && options.repetitions >= 1,
                     "threads {} and repetitions {} of a peak measurement must be at least 1", options.threads, options.repetitions);
}

Burst choose_burst(const CpuContext& context, Dtype dtype) {
  if (dtype == Dtype::kF32) return context.isa() >= Isa::kAvx512 ? fma_burst_avx512 : fma_burst_avx2;
  check<DtypeError>(dtype == Dtype::kBf16, "peak of {} asked for; choose f32 or bf16", name_of(dtype));
  check<EnvironmentError>(context.has_bf16(), "no bf16 peak: instruction set {} has no bf16 products; measure f32", name_of(context.isa()));
  return bf16_burst_avx512_bf16;
}

/// Factor [1] and term [2] below 1: the sums converge, so they stay finite and normal.
std::array<float, 16> start_values() {
  std::array<float, 16> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5F + static_cast<float>(i) / 64.0F;
  return values;
}

/// Operations per second of one thread that runs so many rounds.
double burst_rate(Burst burst, long rounds) {
  std::array<float, 16> sink = start_values();
  const double begin = clock_s();
  const double operations = burst(rounds, sink.data());
  return operations / (clock_s() - begin);
}

/// Rounds that take about kBurstSeconds.
long calibrate(Burst burst) {
  long rounds = 1000;
  std::array<float, 16> sink = start_values();
  for (;; rounds *= 2) {
    const double begin = clock_s();
    burst(rounds, sink.data());
    if (clock_s() - begin >= kBurstSeconds) return rounds;
  }
}

void triad(float* a, const float* b, const float* c, std::int64_t elements) {
#pragma omp simd
  for (std::int64_t i = 0; i < elements; ++i) a[i] = b[i] + 0.5F * c[i];
}

}  // namespace

double peak_gflops(const CpuContext& context, Dtype dtype, const PeakOptions& options) {
  check_options(options);
  const Burst burst = choose_burst(context, dtype);
  const long rounds = calibrate(burst);
  double best = 0.0;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    double rate = 0.0;
#pragma omp parallel num_threads(options.threads) reduction(+ : rate)
    {
#pragma omp barrier
      rate += burst_rate(burst, rounds);
    }
    best = std::max(best, rate);
  }
  return best * 1e-9;
}

double triad_gbytes_per_second(CpuContext& context, const PeakOptions& options) {
  check_options(options);
  ArenaPlan plan;
  std::array<BufferId, 3> ids;
  for (BufferId& id : ids) id = plan.book("workspace", "triad", Dtype::kF32, Shape{options.threads, kTriadElements});
  const Arena arena(plan, context);
  const auto array = [&](std::size_t which) { return arena.tensor(ids[which]).data<float>(); };
  const double bytes = 3.0 * 4.0 * static_cast<double>(kTriadElements) * options.threads;
  double best = 0.0;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    const double begin = clock_s();
#pragma omp parallel num_threads(options.threads)
    {
      const std::int64_t offset = omp_get_thread_num() * kTriadElements;
      triad(array(0) + offset, array(1) + offset, array(2) + offset, kTriadElements);
    }
    best = std::max(best, bytes / (clock_s() - begin));
  }
  return best * 1e-9;
}

}  // namespace flashbert::cpu
