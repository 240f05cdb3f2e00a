// The yardstick of every share of peak: what a burst says it did, against what its sums show.
#include "kernels/cpu/peak/peak.h"

#include <gtest/gtest.h>

#include <array>

#include "core/cpu/cpu_context.h"
#include "core/error.h"
#include "kernels/cpu/peak/bursts.h"
#include "support/test_device.h"

namespace flashbert::cpu {
namespace {

struct BurstCase {
  double (*burst)(long rounds, float* sums);
  std::size_t lanes;         ///< of a register of f32
  std::size_t accumulators;  ///< registers that are added to in each round
  std::size_t products;      ///< multiply-adds a lane and round: one, or a pair
};

/// factor 0.5 and term 0.25: every step below is exact in f32, also with products of bf16.
constexpr std::array<float, 16> kStart = {1.0F, 0.5F, 0.25F, 2.0F,  3.0F,  4.0F,  5.0F,  6.0F,
                                          7.0F, 8.0F, 9.0F,  10.0F, 11.0F, 12.0F, 13.0F, 14.0F};

/// One accumulator after so many rounds: sum * factor + term, or sum + two products.
double after(const BurstCase& c, double sum, int rounds) {
  for (int round = 0; round < rounds; ++round) sum = c.products == 1 ? sum * 0.5 + 0.25 : sum + 2 * 0.5 * 0.25;
  return sum;
}

/// The result is the sum over accumulators in each lane: it shows that each of them took part in each round, and how many lanes there are.
void expect_burst(const BurstCase& c) {
  for (const int rounds : {1, 3}) {
    std::array<float, 16> sums = kStart;
    const double operations = c.burst(rounds, sums.data());
    double want = 0.0;
    for (std::size_t i = 0; i < c.accumulators; ++i) want += after(c, static_cast<double>(kStart[i]), rounds);
    for (std::size_t lane = 0; lane < c.lanes; ++lane) EXPECT_EQ(static_cast<double>(sums[lane]), want) << "lane " << lane;
    for (std::size_t lane = c.lanes; lane < sums.size(); ++lane) EXPECT_EQ(sums[lane], kStart[lane]) << "past the register, lane " << lane;
    // A multiply and an add count two.
    EXPECT_EQ(operations, 2.0 * static_cast<double>(static_cast<std::size_t>(rounds) * c.accumulators * c.lanes * c.products));
  }
}

TEST(PeakBursts, CountTheOperationsTheyDo) {
  const testing::TestDevice device(Device::kCpu);
  const CpuContext& context = device.cpu_context();
  expect_burst({.burst = fma_burst_avx2, .lanes = 8, .accumulators = 12, .products = 1});
  if (context.isa() >= Isa::kAvx512) expect_burst({.burst = fma_burst_avx512, .lanes = 16, .accumulators = 16, .products = 1});
  if (context.has_bf16()) expect_burst({.burst = bf16_burst_avx512_bf16, .lanes = 16, .accumulators = 16, .products = 2});
}

TEST(Peak, RefusesWhatCannotBeMeasured) {
  const testing::TestDevice device(Device::kCpu);
  const CpuContext& context = device.cpu_context();
  EXPECT_THROW(static_cast<void>(peak_gflops(context, Dtype::kF32, {.threads = 0})), ConfigError);
  EXPECT_THROW(static_cast<void>(peak_gflops(context, Dtype::kF32, {.threads = 1, .repetitions = 0})), ConfigError);
  EXPECT_THROW(static_cast<void>(peak_gflops(context, Dtype::kI32, {})), DtypeError);
  if (!context.has_bf16()) {
    EXPECT_THROW(static_cast<void>(peak_gflops(context, Dtype::kBf16, {})), EnvironmentError);
  }
}

}  // namespace
}  // namespace flashbert::cpu
