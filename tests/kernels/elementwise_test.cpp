#include "reference/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::RowGap;
using Values = std::vector<double>;

constexpr std::array<std::int64_t, 6> kCounts{0, 1, 7, 16, 333, 40001};

/// Small, ordinary and saturated arguments.
Values arguments(std::int64_t count, Dtype dtype) {
  testing::RandomValues random(401);
  Values x = random.values(count, dtype, 6.0);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = testing::rounded(x[i] * 1e-3, dtype);
  for (std::size_t i = 1; i < x.size(); i += 97) x[i] = testing::rounded(x[i] * 1e6, dtype);
  return x;
}

class ElementwiseOp : public testing::OpTest {
 protected:
  /// got = op(x) in a fresh tensor and in place; both must be the same and within the bounds.
  template <class Run>
  void expect_map(const Values& first, const std::vector<Estimate>& want, const Run& run, const char* what) const {
    const Shape shape{as_extent(first.size())};
    const DeviceTensor input = typed(shape, first);
    const DeviceTensor output = empty(dtype(), shape);
    run(output.view(), ConstTensor(input));
    testing::expect_close(output.values(), testing::stored(want, dtype()), what);
    run(input.view(), ConstTensor(input));
    EXPECT_TRUE(input.bytes() == output.bytes()) << what << " in place";
  }
};

TEST_P(ElementwiseOp, GeluMatchesReferenceAlsoInPlace) {
  for (const std::int64_t count : kCounts) {
    const Values x = arguments(count, dtype());
    testing::RandomValues random(402);
    const Values dy = random.values(count, dtype());
    std::vector<Estimate> y;
    std::vector<Estimate> dx;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.push_back(reference::gelu(Estimate(x[i])));
      dx.push_back(Estimate(dy[i]) * reference::gelu_slope(Estimate(x[i])));
    }
    expect_map(
        x, y, [&](Tensor out, ConstTensor in) { ops().gelu_forward({.y = out, .x = in}); }, "gelu");
    const DeviceTensor saved = typed({count}, x);
    expect_map(
        dy, dx, [&](Tensor out, ConstTensor in) { ops().gelu_backward({.dx = out, .dy = in, .x = saved}); }, "gelu gradient");
  }
}

TEST_P(ElementwiseOp, TanhMatchesReferenceAlsoInPlace) {
  for (const std::int64_t count : kCounts) {
    const Values x = arguments(count, dtype());
    testing::RandomValues random(403);
    const Values dy = random.values(count, dtype());
    std::vector<Estimate> y;
    std::vector<Estimate> dx;
    Values saved_y;
    for (std::size_t i = 0; i < x.size(); ++i) {
      y.push_back(testing::hyperbolic_tangent(Estimate(x[i])));
      saved_y.push_back(testing::rounded(std::tanh(x[i]), dtype()));
      dx.push_back(reference::tanh_gradient(Estimate(dy[i]), Estimate(saved_y[i])));
    }
    expect_map(
        x, y, [&](Tensor out, ConstTensor in) { ops().tanh_forward({.y = out, .x = in}); }, "tanh");
    const DeviceTensor saved = typed({count}, saved_y);
    expect_map(
        dy, dx, [&](Tensor out, ConstTensor in) { ops().tanh_backward({.dx = out, .dy = in, .y = saved}); }, "tanh gradient");
  }
}

TEST_P(ElementwiseOp, ZeroGradientsStayExactlyZero) {
  const Values x = arguments(333, dtype());
  const DeviceTensor x_device = typed({333}, x);
  const DeviceTensor dy = typed({333}, Values(333, 0.0));
  const DeviceTensor dx = empty(dtype(), {333});
  ops().gelu_backward({.dx = dx, .dy = dy, .x = x_device});
  for (const double value : dx.values()) ASSERT_EQ(value, 0.0);
}

TEST_P(ElementwiseOp, GatherCopiesRowsAndZeroesTheTail) {
  testing::RandomValues random(404);
  for (const std::size_t columns : {std::size_t{1}, std::size_t{24}, std::size_t{130}}) {
    const Values in = random.values(as_extent(20 * columns), dtype());
    const std::vector<std::int32_t> index = {19, 0, 0, -1, 7, -1};
    const DeviceTensor from = typed({20, as_extent(columns)}, in, RowGap{8});
    const DeviceTensor out = empty(dtype(), {6, as_extent(columns)}, RowGap{16});
    const DeviceTensor index_device = i32(index);
    ops().gather_rows({.out = out, .in = from, .index = index_device});
    EXPECT_EQ(out.values(), reference::gather_rows(in, index, columns));
  }
}

TEST_P(ElementwiseOp, ScatterAddsRowsAndSkipsTheTail) {
  testing::RandomValues random(405);
  for (const std::size_t columns : {std::size_t{1}, std::size_t{24}, std::size_t{130}}) {
    std::vector<std::int32_t> index;
    for (std::int32_t r = 0; r < 40; ++r) index.push_back(r % 4 == 3 ? -1 : 7 * r % 60);  // the first and the last row among them
    const Values in = random.values(as_extent(index.size() * columns), dtype());
    const Values old = random.values(as_extent(60 * columns), dtype());
    const DeviceTensor from = typed({as_extent(index.size()), as_extent(columns)}, in, RowGap{3});
    const DeviceTensor out = typed({60, as_extent(columns)}, old, RowGap{8});
    const DeviceTensor index_device = i32(index);
    ops().scatter_add_rows({.out = out, .in = from, .index = index_device});
    testing::expect_close(out.values(), testing::stored(reference::scatter_add_rows(exact(old), exact(in), index, columns), dtype()));
  }
}

TEST_P(ElementwiseOp, CastRoundsToNearestEven) {
  testing::RandomValues random(406);
  Values values = random.values(1000, dtype(), 1e3);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Ties to even, overflow to infinity, zeros of both signs, infinities.
  for (const double value : {1.0 + 0x1p-8, 1.0 + 0x1.8p-7, 0x1.ffffp127, 0.0, -0.0, kInfinity, -kInfinity}) {
    values.push_back(testing::rounded(value, dtype()));
  }
  const auto count = as_extent(values.size());
  const DeviceTensor from = typed({count}, values);
  for (const Dtype to_dtype : {Dtype::kF32, Dtype::kBf16}) {
    const DeviceTensor to = empty(to_dtype, {count});
    ops().cast({.to = to, .from = from});
    EXPECT_EQ(to.values(), testing::rounded(values, to_dtype));
  }
}

TEST_P(ElementwiseOp, CastKeepsNan) {
  const DeviceTensor from = typed({3}, Values(3, std::numeric_limits<double>::quiet_NaN()));
  const DeviceTensor to = empty(Dtype::kBf16, {3});
  ops().cast({.to = to, .from = from});
  for (const double value : to.values()) EXPECT_TRUE(std::isnan(value));
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(ElementwiseOp);

class CopyOp : public testing::OpTest {};

TEST_P(CopyOp, ScaledCopyMatchesReferenceInEveryMode) {
  testing::RandomValues random(407);
  for (const std::int64_t count : kCounts) {
    const Values x = random.values(count, Dtype::kF32);
    const Values old = random.values(count, Dtype::kF32);
    const DeviceTensor from = f32({count}, x);
    const DeviceTensor scale = f32({1}, {0.75});
    for (const bool scaled : {false, true}) {
      for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
        const DeviceTensor to = f32({count}, old);
        ops().scaled_copy(
            {.y = to, .x = from, .scale = scaled ? ConstTensor(scale) : ConstTensor(), .factor = 0.3F, .accumulate = accumulate});
        std::vector<Estimate> want;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const Estimate product = Estimate(static_cast<double>(0.3F)) * Estimate(scaled ? 0.75 : 1.0) * Estimate(x[i]);
          want.push_back(accumulate == Accumulate::kAdd ? product + Estimate(old[i]) : product);
        }
        testing::expect_close(to.values(), want);
      }
    }
    ops().scaled_copy({.y = from, .x = from, .scale = {}, .factor = 2.0F});
    const Values doubled = from.values();
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(doubled[i], 2.0 * x[i]);
  }
}

TEST_P(CopyOp, WritesReadsAndZerosMoveExactlyTheirBytes) {
  // The larger one is cut into pieces among threads.
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{5}, std::int64_t{300001}}) {
    std::vector<float> host(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 1009);
    const DeviceTensor tensor = empty(Dtype::kF32, {count});
    ops().context().write(tensor, host.data());
    std::vector<float> back(host.size(), -1.0F);
    ops().context().read(back.data(), tensor);
    EXPECT_EQ(back, host);
    ops().fill_zero(tensor);
    EXPECT_EQ(tensor.values(), Values(host.size(), 0.0));
  }
}

FLASHBERT_FOR_DEVICES(CopyOp);

}  // namespace
}  // namespace flashbert
