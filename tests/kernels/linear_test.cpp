#include <gtest/gtest.h>

#include <vector>

#include "linear_support.h"

namespace flashbert {
namespace {

using reference::LinearExtents;
using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::kLinearExtents;
using testing::LinearCase;
using testing::PackedWeights;
using testing::RowGap;
using testing::TestDevice;
using Values = std::vector<double>;

class LinearOp : public testing::OpTest {
 protected:
  [[nodiscard]] PackedWeights packed(const LinearCase& c) const { return {device(), dtype(), c}; }
};

TEST_P(LinearOp, ForwardMatchesReference) {
  for (const LinearExtents& e : kLinearExtents) {
    const LinearCase c(e, dtype(), 101);
    const PackedWeights packed_weights = packed(c);
    const DeviceTensor x = typed(c.x_shape(), c.x);
    const DeviceTensor bias = f32({as_extent(e.out)}, c.bias);
    for (const bool biased : {true, false}) {
      const auto want = reference::linear_forward(e, exact(c.x), exact(c.weight), biased ? exact(c.bias) : std::vector<Estimate>{});
      for (const Dtype output : {dtype(), Dtype::kF32}) {
        const DeviceTensor y = empty(output, c.y_shape());
        ops().linear_forward({.y = y, .x = x, .weights = packed_weights.weights(), .bias = biased ? ConstTensor(bias) : ConstTensor()});
        testing::expect_close(y.values(), testing::stored(want, output), fmt::format("{}x{}x{} bias {}", e.rows, e.in, e.out, biased));
      }
    }
  }
}

TEST_P(LinearOp, InputGradientMatchesReference) {
  for (const LinearExtents& e : kLinearExtents) {
    const LinearCase c(e, dtype(), 102);
    const PackedWeights packed_weights = packed(c);
    const DeviceTensor dy = typed(c.y_shape(), c.dy);
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      const bool adds = accumulate == Accumulate::kAdd;
      const DeviceTensor dx = adds ? typed(c.x_shape(), c.old_dx) : empty(dtype(), c.x_shape());
      ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = packed_weights.weights(), .accumulate = accumulate});
      const auto want = reference::linear_input_gradient(e, exact(c.dy), exact(c.weight), adds ? exact(c.old_dx) : std::vector<Estimate>{});
      testing::expect_close(dx.values(), testing::stored(want, dtype()), fmt::format("{}x{}x{} add {}", e.rows, e.in, e.out, adds));
    }
  }
}

TEST_P(LinearOp, WeightGradientMatchesReference) {
  for (const LinearExtents& e : kLinearExtents) {
    const LinearCase c(e, dtype(), 103);
    const DeviceTensor x = typed(c.x_shape(), c.x);
    const DeviceTensor dy = typed(c.y_shape(), c.dy);
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      const bool adds = accumulate == Accumulate::kAdd;
      const DeviceTensor dweight = adds ? f32(c.weight_shape(), c.old_dweight) : empty(Dtype::kF32, c.weight_shape());
      const DeviceTensor dbias = adds ? f32({as_extent(e.out)}, c.old_dbias) : empty(Dtype::kF32, {as_extent(e.out)});
      ops().linear_weight_gradient({.dweight = dweight, .dbias = dbias, .dy = dy, .x = x, .accumulate = accumulate});
      reference::LinearParameterGradients<Estimate> old;
      if (adds) old = {exact(c.old_dweight), exact(c.old_dbias)};
      const auto want = reference::linear_weight_gradient(e, exact(c.dy), exact(c.x), old);
      const std::string what = fmt::format("{}x{}x{} add {}", e.rows, e.in, e.out, adds);
      testing::expect_close(dweight.values(), want.weight, what + " dweight");
      testing::expect_close(dbias.values(), want.bias, what + " dbias");
    }
  }
}

TEST_P(LinearOp, TakesStridedRowsAndLeavesTheGapsAlone) {
  const LinearCase c({37, 24, 40}, dtype(), 104);
  const PackedWeights packed_weights = packed(c);
  const DeviceTensor x = typed(c.x_shape(), c.x, RowGap{40});
  const DeviceTensor dy = typed(c.y_shape(), c.dy, RowGap{8});
  const DeviceTensor y = empty(dtype(), c.y_shape(), RowGap{16});
  const DeviceTensor dx = typed(c.x_shape(), c.old_dx, RowGap{3});
  const DeviceTensor dweight(device(), Dtype::kF32, c.weight_shape(), c.old_dweight, RowGap{5});
  ops().linear_forward({.y = y, .x = x, .weights = packed_weights.weights(), .bias = {}});
  ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = packed_weights.weights(), .accumulate = Accumulate::kAdd});
  ops().linear_weight_gradient({.dweight = dweight, .dbias = {}, .dy = dy, .x = x, .accumulate = Accumulate::kAdd});
  testing::expect_close(y.values(), testing::stored(reference::linear_forward<Estimate>(c.e, exact(c.x), exact(c.weight), {}), dtype()));
  testing::expect_close(dx.values(),
                        testing::stored(reference::linear_input_gradient(c.e, exact(c.dy), exact(c.weight), exact(c.old_dx)), dtype()));
  const auto want = reference::linear_weight_gradient<Estimate>(c.e, exact(c.dy), exact(c.x), {exact(c.old_dweight), {}});
  testing::expect_close(dweight.values(), want.weight);
}

TEST_P(LinearOp, ZeroGradientRowsOfTheTailAddNothing) {
  // The tail of x holds finite rubbish, its gradient is exactly 0: sums over the rows must not see it.
  const LinearCase c({bucket_rows(33), 24, 16}, dtype(), 105);
  Values dy = c.dy;
  std::fill(dy.begin() + 33 * 16, dy.end(), 0.0);
  Values x = c.x;
  std::fill(x.begin() + 33 * 24, x.end(), 1e4);
  const DeviceTensor x_device = typed(c.x_shape(), x);
  const DeviceTensor dy_device = typed(c.y_shape(), dy);
  const DeviceTensor dweight = empty(Dtype::kF32, c.weight_shape());
  const DeviceTensor dbias = empty(Dtype::kF32, {16});
  const DeviceTensor dx = empty(dtype(), c.x_shape());
  const PackedWeights packed_weights = packed(c);
  ops().linear_weight_gradient({.dweight = dweight, .dbias = dbias, .dy = dy_device, .x = x_device, .accumulate = Accumulate::kOverwrite});
  ops().linear_input_gradient({.dx = dx, .dy = dy_device, .weights = packed_weights.weights()});
  const LinearExtents used{33, 24, 16};
  x.resize(33 * 24);
  const Values dx_values = dx.values();
  for (std::size_t i = 33 * 24; i < dx_values.size(); ++i) ASSERT_EQ(dx_values[i], 0.0);
  dy.resize(33 * 16);
  const auto want = reference::linear_weight_gradient<Estimate>(used, exact(dy), exact(x), {});
  testing::expect_close(dweight.values(), want.weight);
  testing::expect_close(dbias.values(), want.bias);
}

TEST_P(LinearOp, PoisonedRowsDoNotReachOthers) {
  // A NaN row of x makes its own row of y NaN and no other.
  const LinearCase c({35, 24, 40}, dtype(), 106);
  Values x = c.x;
  std::fill(x.begin() + 34 * 24, x.end(), std::numeric_limits<double>::quiet_NaN());
  const PackedWeights packed_weights = packed(c);
  const DeviceTensor x_device = typed(c.x_shape(), x);
  const DeviceTensor y = empty(dtype(), c.y_shape());
  ops().linear_forward({.y = y, .x = x_device, .weights = packed_weights.weights(), .bias = {}});
  auto want = testing::stored(reference::linear_forward<Estimate>(c.e, exact(c.x), exact(c.weight), {}), dtype());
  Values got = y.values();
  for (std::size_t n = 0; n < 40; ++n) EXPECT_TRUE(std::isnan(got[34 * 40 + n]));
  got.resize(34 * 40);
  want.resize(34 * 40);
  testing::expect_close(got, want);
}

TEST_P(LinearOp, IsBitEqualForAnyThreadCount) {
  const Dtype type = dtype();
  for (const LinearExtents& e : {LinearExtents{1100, 72, 136}, LinearExtents{70, 40, 600}}) {
    const LinearCase c(e, type, 107);
    testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
      const PackedWeights packed_weights(on, type, c);
      const DeviceTensor x(on, type, c.x_shape(), c.x);
      const DeviceTensor dy(on, type, c.y_shape(), c.dy);
      const DeviceTensor bias(on, Dtype::kF32, {as_extent(e.out)}, c.bias);
      const DeviceTensor y(on, type, c.y_shape());
      const DeviceTensor dx(on, type, c.x_shape());
      const DeviceTensor dweight(on, Dtype::kF32, c.weight_shape());
      const DeviceTensor dbias(on, Dtype::kF32, {as_extent(e.out)});
      on.ops().linear_forward({.y = y, .x = x, .weights = packed_weights.weights(), .bias = bias});
      on.ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = packed_weights.weights()});
      on.ops().linear_weight_gradient({.dweight = dweight, .dbias = dbias, .dy = dy, .x = x, .accumulate = Accumulate::kOverwrite});
      std::vector<std::byte> bytes;
      for (const DeviceTensor* tensor : {&y, &dx, &dweight, &dbias}) testing::append(bytes, *tensor);
      return bytes;
    });
  }
}

TEST_P(LinearOp, WeightAndBiasGradientsCountEveryRowOfLongBatches) {
  // Sums of ones are exact in any order; rows around and above the chunks in which long sums are cut.
  constexpr std::int64_t kIn = 40;
  constexpr std::int64_t kOut = 24;
  for (const std::int64_t rows : {2016, 2048, 2080, 4128}) {
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      const DeviceTensor dy = typed({rows, kOut}, std::vector<double>(static_cast<std::size_t>(rows * kOut), 1.0));
      const DeviceTensor x = typed({rows, kIn}, std::vector<double>(static_cast<std::size_t>(rows * kIn), 1.0));
      const DeviceTensor dweight = f32({kOut, kIn}, std::vector<double>(kOut * kIn, 3.0));
      const DeviceTensor dbias = f32({kOut}, std::vector<double>(kOut, 5.0));
      ops().linear_weight_gradient({.dweight = dweight, .dbias = dbias, .dy = dy, .x = x, .accumulate = accumulate});
      const double old = accumulate == Accumulate::kAdd ? 1.0 : 0.0;
      const auto count = static_cast<double>(rows);
      EXPECT_EQ(dweight.values(), std::vector<double>(kOut * kIn, count + 3.0 * old)) << rows;
      EXPECT_EQ(dbias.values(), std::vector<double>(kOut, count + 5.0 * old)) << rows;
    }
  }
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(LinearOp);

}  // namespace
}  // namespace flashbert
