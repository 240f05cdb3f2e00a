#include <gtest/gtest.h>

#include <vector>

#include "linear_support.h"

// What products do to their results before they are stored: GELU, its derivative, and the bias gradient of the layer below.
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

class LinearGeluOp : public testing::OpTest {
 protected:
  [[nodiscard]] PackedWeights packed(const LinearCase& c) const { return {device(), dtype(), c}; }
  /// A backend may round what goes into GELU and what is multiplied by its derivative to the tensor's type, or not.
  static auto rounding_to(Dtype type) {
    return [type](const Estimate& x) { return testing::stored(x, type); };
  }
  [[nodiscard]] std::vector<Estimate> expected_y(const LinearCase& c, Dtype output) const {
    return testing::stored(reference::linear_gelu_forward(c.e, exact(c.x), exact(c.weight), exact(c.bias), rounding_to(output)), output);
  }
  [[nodiscard]] std::vector<Estimate> expected_dx(const LinearCase& c, const Values& before_gelu) const {
    return testing::stored(
        reference::linear_gelu_input_gradient(c.e, exact(c.dy), exact(c.weight), exact(before_gelu), rounding_to(dtype())), dtype());
  }
  /// What went into GELU of the layer below, (T, K).
  [[nodiscard]] Values kept(const LinearExtents& e) const {
    testing::RandomValues random(118);
    return random.values(as_extent(e.rows * e.in), dtype(), 3.0);
  }
  /// dbias against the sums of dx as it was stored.
  static void expect_column_sums(const Values& dbias, const Values& dx, const LinearExtents& e, const Values& old) {
    if (e.rows == 0 && old.empty()) {
      EXPECT_EQ(dbias, Values(e.in, 0.0));
      return;
    }
    testing::expect_close(dbias, reference::column_sums(exact(dx), e.in, exact(old)), "dbias");
  }
};

TEST_P(LinearGeluOp, ForwardMatchesReferenceAndKeepsWhatWentIn) {
  for (const LinearExtents& e : kLinearExtents) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", e.rows, e.in, e.out));
    const LinearCase c(e, dtype(), 111);
    const PackedWeights weights = packed(c);
    const DeviceTensor x = typed(c.x_shape(), c.x);
    const DeviceTensor bias = f32({as_extent(e.out)}, c.bias);
    for (const Dtype output : {dtype(), Dtype::kF32}) {
      const DeviceTensor y = empty(output, c.y_shape());
      const DeviceTensor before = empty(output, c.y_shape());
      ops().linear_forward(
          {.y = y, .x = x, .weights = weights.weights(), .bias = bias, .activation = Activation::kGelu, .before_gelu = before});
      testing::expect_close(y.values(), expected_y(c, output), "y");
      const auto sums = reference::linear_forward(e, exact(c.x), exact(c.weight), exact(c.bias));
      testing::expect_close(before.values(), testing::stored(sums, output), "before_gelu");
      const DeviceTensor alone = empty(output, c.y_shape());
      ops().linear_forward({.y = alone, .x = x, .weights = weights.weights(), .bias = bias, .activation = Activation::kGelu});
      EXPECT_TRUE(alone.bytes() == y.bytes()) << "without before_gelu";
    }
  }
}

TEST_P(LinearGeluOp, InputGradientMatchesReferenceWithTheBiasGradientBelow) {
  for (const LinearExtents& e : kLinearExtents) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", e.rows, e.in, e.out));
    const LinearCase c(e, dtype(), 112);
    const PackedWeights weights = packed(c);
    const DeviceTensor dy = typed(c.y_shape(), c.dy);
    const Values before_values = kept(e);
    const DeviceTensor before = typed(c.x_shape(), before_values);
    testing::RandomValues random(113);
    const Values old = random.values(as_extent(e.in), Dtype::kF32);
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      const bool adds = accumulate == Accumulate::kAdd;
      const DeviceTensor dx = empty(dtype(), c.x_shape());
      const DeviceTensor dbias = adds ? f32({as_extent(e.in)}, old) : empty(Dtype::kF32, {as_extent(e.in)});
      ops().linear_input_gradient(
          {.dx = dx, .dy = dy, .weights = weights.weights(), .before_gelu = before, .dbias = dbias, .dbias_accumulate = accumulate});
      testing::expect_close(dx.values(), expected_dx(c, before_values), "dx");
      expect_column_sums(dbias.values(), dx.values(), e, adds ? old : Values{});
      const DeviceTensor alone = empty(dtype(), c.x_shape());
      ops().linear_input_gradient({.dx = alone, .dy = dy, .weights = weights.weights(), .before_gelu = before});
      EXPECT_TRUE(alone.bytes() == dx.bytes()) << "without dbias";
    }
  }
}

TEST_P(LinearGeluOp, TakesStridedRowsAndLeavesTheGapsAlone) {
  const LinearCase c({37, 24, 40}, dtype(), 114);
  const PackedWeights weights = packed(c);
  const Values before_values = kept(c.e);
  const DeviceTensor x = typed(c.x_shape(), c.x, RowGap{40});
  const DeviceTensor dy = typed(c.y_shape(), c.dy, RowGap{8});
  const DeviceTensor bias = f32({40}, c.bias);
  const DeviceTensor y = empty(dtype(), c.y_shape(), RowGap{16});
  const DeviceTensor before = empty(dtype(), c.y_shape(), RowGap{5});
  const DeviceTensor before_below = typed(c.x_shape(), before_values, RowGap{7});
  const DeviceTensor dx = empty(dtype(), c.x_shape(), RowGap{3});
  const DeviceTensor dbias = empty(Dtype::kF32, {24});
  ops().linear_forward(
      {.y = y, .x = x, .weights = weights.weights(), .bias = bias, .activation = Activation::kGelu, .before_gelu = before});
  ops().linear_input_gradient({.dx = dx,
                               .dy = dy,
                               .weights = weights.weights(),
                               .before_gelu = before_below,
                               .dbias = dbias,
                               .dbias_accumulate = Accumulate::kOverwrite});
  testing::expect_close(y.values(), expected_y(c, dtype()), "y");
  testing::expect_close(dx.values(), expected_dx(c, before_values), "dx");
  expect_column_sums(dbias.values(), dx.values(), c.e, {});
}

TEST_P(LinearGeluOp, ZeroGradientRowsOfTheTailStayZeroAndAddNothing) {
  // The tail of what was kept is finite rubbish, its gradient is exactly 0.
  const LinearExtents used{33, 24, 16};
  LinearCase c({static_cast<std::size_t>(bucket_rows(33)), used.in, used.out}, dtype(), 115);
  std::fill(c.dy.begin() + static_cast<std::ptrdiff_t>(used.rows * used.out), c.dy.end(), 0.0);
  Values before_values = kept(c.e);
  const std::size_t used_values = used.rows * used.in;
  for (std::size_t i = used_values; i < before_values.size(); ++i) before_values[i] = i % 2 == 0 ? 1e4 : -1e4;
  const PackedWeights weights = packed(c);
  const DeviceTensor dy = typed(c.y_shape(), c.dy);
  const DeviceTensor before = typed(c.x_shape(), before_values);
  const DeviceTensor dx = empty(dtype(), c.x_shape());
  const DeviceTensor dbias = empty(Dtype::kF32, {as_extent(used.in)});
  ops().linear_input_gradient({.dx = dx,
                               .dy = dy,
                               .weights = weights.weights(),
                               .before_gelu = before,
                               .dbias = dbias,
                               .dbias_accumulate = Accumulate::kOverwrite});
  Values dx_values = dx.values();
  for (std::size_t i = used_values; i < dx_values.size(); ++i) ASSERT_EQ(dx_values[i], 0.0);
  dx_values.resize(used_values);
  expect_column_sums(dbias.values(), dx_values, used, {});
}

TEST_P(LinearGeluOp, PoisonedRowsDoNotReachOthers) {
  LinearCase c({35, 24, 40}, dtype(), 116);
  std::fill(c.x.begin() + 34 * 24, c.x.end(), std::numeric_limits<double>::quiet_NaN());
  const PackedWeights weights = packed(c);
  const DeviceTensor x = typed(c.x_shape(), c.x);
  const DeviceTensor bias = f32({40}, c.bias);
  const DeviceTensor y = empty(dtype(), c.y_shape());
  ops().linear_forward({.y = y, .x = x, .weights = weights.weights(), .bias = bias, .activation = Activation::kGelu});
  Values got = y.values();
  for (std::size_t n = 0; n < 40; ++n) EXPECT_TRUE(std::isnan(got[34 * 40 + n]));
  std::vector<Estimate> want = expected_y(c, dtype());
  got.resize(34 * 40);
  want.resize(34 * 40);
  testing::expect_close(got, want);
}

TEST_P(LinearGeluOp, IsBitEqualForAnyThreadCount) {
  const Dtype type = dtype();
  for (const LinearExtents& e : {LinearExtents{1100, 136, 72}, LinearExtents{70, 600, 40}}) {
    const LinearCase c(e, type, 117);
    const Values before_values = kept(e);
    testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
      const PackedWeights weights(on, type, c);
      const DeviceTensor x(on, type, c.x_shape(), c.x);
      const DeviceTensor dy(on, type, c.y_shape(), c.dy);
      const DeviceTensor before_below(on, type, c.x_shape(), before_values);
      const DeviceTensor y(on, type, c.y_shape());
      const DeviceTensor before(on, type, c.y_shape());
      const DeviceTensor dx(on, type, c.x_shape());
      const DeviceTensor dbias(on, Dtype::kF32, {as_extent(e.in)});
      on.ops().linear_forward(
          {.y = y, .x = x, .weights = weights.weights(), .bias = {}, .activation = Activation::kGelu, .before_gelu = before});
      on.ops().linear_input_gradient({.dx = dx,
                                      .dy = dy,
                                      .weights = weights.weights(),
                                      .before_gelu = before_below,
                                      .dbias = dbias,
                                      .dbias_accumulate = Accumulate::kOverwrite});
      std::vector<std::byte> bytes;
      for (const DeviceTensor* tensor : {&y, &before, &dx, &dbias}) testing::append(bytes, *tensor);
      return bytes;
    });
  }
}

TEST_P(LinearGeluOp, BiasGradientCountsEveryRowOfLongBatches) {
  // gelu'(10) is 1 in f32, dy W is 1: sums of ones are exact in any order; rows around the blocks in which long sums are cut.
  constexpr std::int64_t kIn = 40;
  for (const std::int64_t rows : {480, 512, 544, 1056}) {
    const LinearExtents e{static_cast<std::size_t>(rows), kIn, 8};
    LinearCase c(e, dtype(), 119);
    std::fill(c.dy.begin(), c.dy.end(), 0.125);
    std::fill(c.weight.begin(), c.weight.end(), 1.0);
    const PackedWeights weights = packed(c);
    const DeviceTensor dy = typed(c.y_shape(), c.dy);
    const DeviceTensor before = typed(c.x_shape(), Values(e.rows * e.in, 10.0));
    const DeviceTensor dx = empty(dtype(), c.x_shape());
    const DeviceTensor dbias = f32({kIn}, Values(kIn, 5.0));
    ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = weights.weights(), .before_gelu = before, .dbias = dbias});
    EXPECT_EQ(dbias.values(), Values(kIn, static_cast<double>(rows) + 5.0)) << rows;
  }
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(LinearGeluOp);

}  // namespace
}  // namespace flashbert
