#include "reference/cross_entropy.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using reference::CrossEntropyExtents;
using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::RowGap;
using testing::TestDevice;
using Values = std::vector<double>;
using Gradient = SoftmaxCrossEntropy::Gradient;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kScale = 0.03125;

struct LossCase {
  CrossEntropyExtents e;
  Values logits;
  std::vector<std::int32_t> labels;
  LossCase(const CrossEntropyExtents& extents, Dtype dtype, std::uint64_t seed) : e(extents) {
    testing::RandomValues random(seed);
    logits = random.values(as_extent(e.rows * e.columns), dtype, 8.0);
    for (std::size_t row = 0; row < e.rows; ++row) {
      labels.push_back(row % 5 == 4 ? -1 : random.below(static_cast<std::int32_t>(e.classes)));
    }
  }
  [[nodiscard]] Shape shape() const { return {as_extent(e.rows), as_extent(e.columns)}; }
  /// With rubbish in the padding columns and the ignored rows.
  [[nodiscard]] Values poisoned() const {
    Values values = logits;
    for (std::size_t row = 0; row < e.rows; ++row) {
      for (std::size_t c = 0; c < e.columns; ++c) {
        if (c >= e.classes) values[row * e.columns + c] = c % 2 == 0 ? kNan : 1e30;
        if (labels[row] < 0) values[row * e.columns + c] = kNan;
      }
    }
    return values;
  }
};

/// Counters on a device.
class Counters {
 public:
  explicit Counters(const TestDevice& device)
      : nll_(device, Dtype::kF64, {1}, Values{2.0}),
        correct_(device, Dtype::kI64, {1}, Values{3.0}),
        counted_(device, Dtype::kI64, {1}, Values{5.0}) {}
  [[nodiscard]] LossCounters get() const { return {nll_, correct_, counted_}; }
  /// What was added to the values they started with.
  [[nodiscard]] double nll() const { return nll_.values()[0] - 2.0; }
  [[nodiscard]] double correct() const { return correct_.values()[0] - 3.0; }
  [[nodiscard]] double counted() const { return counted_.values()[0] - 5.0; }

 private:
  DeviceTensor nll_, correct_, counted_;
};

class CrossEntropyOp : public testing::OpTest {
 protected:
  void expect_loss(const LossCase& c, const Values& logits, RowGap gap = {}) const {
    const auto want = reference::softmax_cross_entropy(c.e, exact(c.logits), c.labels, Estimate(kScale));
    testing::Sum<Estimate> nll;
    for (const Estimate& row : want.nll) nll.add(row);
    const DeviceTensor labels = i32(c.labels);
    const DeviceTensor scale = f32({1}, {kScale});
    for (const Gradient gradient : {Gradient::kNone, Gradient::kInPlace}) {
      const bool in_place = gradient == Gradient::kInPlace;
      const DeviceTensor device_logits = typed(c.shape(), logits, gap);
      const std::vector<std::byte> before = device_logits.bytes();
      const Counters counters(device());
      ops().softmax_cross_entropy({.logits = device_logits,
                                   .labels = labels,
                                   .scale = in_place ? ConstTensor(scale) : ConstTensor(),
                                   .counters = counters.get(),
                                   .classes = as_extent(c.e.classes),
                                   .gradient = gradient});
      const std::string what = fmt::format("{}x{} of {}", c.e.rows, c.e.classes, c.e.columns);
      testing::expect_close({counters.nll()}, {nll.total()}, what + " nll");
      EXPECT_EQ(counters.correct(), static_cast<double>(want.correct)) << what;
      EXPECT_EQ(counters.counted(), static_cast<double>(want.counted)) << what;
      if (in_place) {
        expect_gradient(c, device_logits.values(), testing::stored(want.gradient, dtype()), what);
      } else {
        EXPECT_TRUE(device_logits.bytes() == before) << what << " logits changed";
      }
    }
  }

  /// Padding and ignored rows must be exactly 0.
  static void expect_gradient(const LossCase& c, const Values& got, const std::vector<Estimate>& want, const std::string& what) {
    testing::expect_close(got, want, what + " gradient");
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool ignored = i % c.e.columns >= c.e.classes || c.labels[i / c.e.columns] < 0;
      ASSERT_TRUE(!ignored || got[i] == 0.0) << what << " element " << i << " is " << got[i];
    }
  }
};

constexpr std::array<CrossEntropyExtents, 7> kExtents{
    {{0, 8, 8}, {1, 2, 2}, {6, 2, 2}, {9, 64, 50}, {33, 128, 127}, {7, 1024, 1000}, {3, 30528, 30522}}};

TEST_P(CrossEntropyOp, MatchesReference) {
  for (const CrossEntropyExtents& e : kExtents) {
    const LossCase c(e, dtype(), 501);
    expect_loss(c, c.logits);
  }
}

TEST_P(CrossEntropyOp, IgnoresRubbishInPaddingColumnsAndTailRows) {
  for (const CrossEntropyExtents& e : kExtents) {
    const LossCase c(e, dtype(), 502);
    expect_loss(c, c.poisoned());
  }
}

TEST_P(CrossEntropyOp, TakesStridedRows) {
  const LossCase c({9, 64, 50}, dtype(), 503);
  expect_loss(c, c.poisoned(), RowGap{8});
}

TEST_P(CrossEntropyOp, CountsTheFirstOfEqualLogitsAsTheGuess) {
  LossCase c({4, 40, 33}, dtype(), 504);
  c.logits.assign(c.logits.size(), 1.0);
  c.labels = {0, 1, 32, 0};
  c.logits[3 * 40 + 32] = 2.0;
  expect_loss(c, c.logits);
  const auto want = reference::softmax_cross_entropy(c.e, c.logits, c.labels, kScale);
  EXPECT_EQ(want.correct, 1);
}

TEST_P(CrossEntropyOp, StaysFiniteForHugeAndVeryWrongLogits) {
  LossCase c({3, 16, 16}, dtype(), 505);
  c.labels = {0, 1, 2};
  // A very confident right row, a very wrong row, a row of huge negative values.
  c.logits.assign(c.logits.size(), 0.0);
  c.logits[0] = 1024.0;
  c.logits[16] = 32768.0;
  for (std::size_t i = 32; i < 48; ++i) c.logits[i] = -32768.0;
  expect_loss(c, c.logits);
}

TEST_P(CrossEntropyOp, AddsNothingWhenEveryRowIsIgnored) {
  LossCase c({5, 16, 16}, dtype(), 506);
  c.labels.assign(5, -1);
  expect_loss(c, c.poisoned());
}

TEST_P(CrossEntropyOp, IsBitEqualForAnyThreadCount) {
  const Dtype type = dtype();
  const LossCase c({67, 256, 250}, type, 507);
  testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
    const DeviceTensor logits(on, type, c.shape(), c.poisoned());
    const DeviceTensor labels = make_i32(on, c.labels);
    const DeviceTensor scale(on, Dtype::kF32, {1}, Values{kScale});
    const DeviceTensor nll(on, Dtype::kF64, {1}, Values{0.0});
    const DeviceTensor correct(on, Dtype::kI64, {1}, Values{0.0});
    const DeviceTensor counted(on, Dtype::kI64, {1}, Values{0.0});
    on.ops().softmax_cross_entropy(
        {.logits = logits, .labels = labels, .scale = scale, .counters = {nll, correct, counted}, .classes = as_extent(c.e.classes)});
    std::vector<std::byte> bytes;
    for (const DeviceTensor* tensor : {&logits, &nll, &correct, &counted}) testing::append(bytes, *tensor);
    return bytes;
  });
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(CrossEntropyOp);

}  // namespace
}  // namespace flashbert
