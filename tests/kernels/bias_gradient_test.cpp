#include "kernels/cpu/linear/bias_gradient.h"

#include <gtest/gtest.h>

#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;
using Values = std::vector<double>;

class CpuBiasGradient : public testing::OpTest {};

TEST_P(CpuBiasGradient, HasTheBitsOfAWeightGradients) {
  // Odd and empty sizes; rows around a block of the sum; columns that fill no vector, and more than one strip.
  testing::RandomValues random(821);
  for (const std::int64_t rows : {0, 1, 31, 512, 513, 1100}) {
    for (const std::int64_t columns : {1, 16, 33, 136, 300}) {
      const DeviceTensor dy(device(), dtype(), {rows, columns}, random.values(rows * columns, dtype()), {.elements = 3});
      const DeviceTensor x(device(), dtype(), {rows, 8}, random.values(rows * 8, dtype()));
      const Values old = random.values(columns, Dtype::kF32);
      for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
        const DeviceTensor dweight = f32({columns, 8}, Values(static_cast<std::size_t>(columns) * 8, 0.0));
        const DeviceTensor want = f32({columns}, old);
        ops().linear_weight_gradient({.dweight = dweight, .dbias = want, .dy = dy, .x = x, .accumulate = accumulate});
        for (const int threads : {1, 3}) {
          const DeviceTensor got = f32({columns}, old);
          cpu::bias_gradient({.dbias = got, .dy = dy, .accumulate = accumulate}, threads);
          EXPECT_TRUE(got.bytes() == want.bytes()) << rows << " x " << columns << " on " << threads << " threads";
        }
      }
    }
  }
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(CpuBiasGradient);

}  // namespace
}  // namespace flashbert
