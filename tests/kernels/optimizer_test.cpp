#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "op_test.h"
#include "optimizer_support.h"

namespace flashbert {
namespace {

using testing::as_extent;
using testing::DeviceTensor;
using testing::LambOnDevice;
using testing::LambSettings;
using testing::LambTensor;
using testing::TestDevice;
using Values = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class OptimizerOp : public testing::OpTest {};

/// Outcome of GlobalNorm.
struct Norm {
  double norm, clip_scale, first_bad;
};
Norm run_global_norm(const TestDevice& device, const std::vector<Values>& tensors, float clip) {
  std::vector<std::unique_ptr<DeviceTensor>> memory;
  std::vector<ConstTensor> views;
  for (const Values& values : tensors) {
    memory.push_back(std::make_unique<DeviceTensor>(device, Dtype::kF32, Shape{as_extent(values.size())}, values));
    views.emplace_back(*memory.back());
  }
  const DeviceTensor norm(device, Dtype::kF32, {1});
  const DeviceTensor clip_scale(device, Dtype::kF32, {1});
  const DeviceTensor first_bad(device, Dtype::kI32, {1});
  device.ops().global_norm({.result = {norm, clip_scale, first_bad}, .tensors = views, .clip = clip});
  return {norm.values()[0], clip_scale.values()[0], first_bad.values()[0]};
}

std::vector<LambTensor> random_tensors(std::uint64_t seed) {
  testing::RandomValues random(seed);
  std::vector<LambTensor> tensors;
  for (const std::int64_t count : {97, 1, 0, 5000, 16}) {
    LambTensor t;
    t.state.weight = random.values(count, Dtype::kF32);
    t.state.m = random.values(count, Dtype::kF32, 0.1);
    t.state.v = random.values(count, Dtype::kF32, 0.01);
    for (double& v : t.state.v) v = std::abs(v);
    t.gradient = random.values(count, Dtype::kF32);
    t.decay = tensors.size() % 2 == 0;
    tensors.push_back(t);
  }
  return tensors;
}

TEST_P(OptimizerOp, GlobalNormMatchesReferenceWithinOneRounding) {
  // Squares are summed in f64, so only storing in f32 rounds: the norm once, the scale once.
  testing::RandomValues random(601);
  std::vector<Values> tensors;
  for (const std::int64_t count : {1, 0, 31, 4096, 4097, 10000}) tensors.push_back(random.values(count, Dtype::kF32, 3.0));
  const double want = reference::global_norm(tensors);
  const testing::Tolerance tolerance{.relative = 1.001 * unit_roundoff(Dtype::kF32)};
  for (const double clip : {1.0, 1e6}) {
    const Norm got = run_global_norm(device(), tensors, static_cast<float>(clip));
    testing::expect_close({got.norm, got.clip_scale}, {want, std::min(1.0, clip / want)}, tolerance);
    EXPECT_EQ(got.first_bad, -1.0);
  }
}

TEST_P(OptimizerOp, TheClipScaleHasNoGuardInItsDenominator) {
  // Norms of 2 and 2^-10: a guard of 1e-6 there would move the scale by 5e-7 and 1e-3.
  for (const auto& [value, norm] : {std::pair{1.0, 2.0}, std::pair{0x1p-11, 0x1p-10}}) {
    const Norm got = run_global_norm(device(), {{value, value}, {value, value}}, static_cast<float>(norm / 4.0));
    EXPECT_EQ(got.norm, norm);
    EXPECT_EQ(got.clip_scale, 0.25);
    EXPECT_EQ(run_global_norm(device(), {{value, value}, {value, value}}, static_cast<float>(norm)).clip_scale, 1.0);
  }
}

TEST_P(OptimizerOp, GlobalNormOfNothingIsZeroAndClipsNothing) {
  for (const std::vector<Values>& tensors : {std::vector<Values>{}, std::vector<Values>{{}}, std::vector<Values>{{0.0, 0.0}}}) {
    const Norm got = run_global_norm(device(), tensors, 1.0F);
    EXPECT_EQ(got.norm, 0.0);
    EXPECT_EQ(got.clip_scale, 1.0);
    EXPECT_EQ(got.first_bad, -1.0);
  }
}

TEST_P(OptimizerOp, GlobalNormSurvivesSquaresThatF32CannotHold) {
  const testing::Tolerance tolerance{.relative = 1.001 * unit_roundoff(Dtype::kF32)};
  testing::expect_close({run_global_norm(device(), {{0x1p-90, 0x1p-90, 0x1p-90, 0x1p-90}}, 1.0F).norm}, {0x1p-89}, tolerance);
  testing::expect_close({run_global_norm(device(), {{0x1p90, 0x1p90, 0x1p90, 0x1p90}}, 1.0F).norm}, {0x1p91}, tolerance);
}

TEST_P(OptimizerOp, GlobalNormNamesTheFirstBadTensor) {
  for (const double bad : {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<Values> tensors(4, Values(5000, 0.5));
    tensors[3][7] = bad;
    EXPECT_EQ(run_global_norm(device(), tensors, 1.0F).first_bad, 3.0);
    tensors[1][4999] = bad;
    EXPECT_EQ(run_global_norm(device(), tensors, 1.0F).first_bad, 1.0);
  }
}

TEST_P(OptimizerOp, LambMatchesReference) {
  const std::vector<LambTensor> tensors = random_tensors(602);
  for (const double step : {1.0, 7.0, 10000.0}) {
    const LambSettings settings{.clip_scale = 0.25, .step = step};
    LambOnDevice got(device(), tensors);
    got.update(settings);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      testing::expect_lamb(got, i, testing::expected_lamb(settings, tensors[i]), fmt::format("step {} tensor {}", step, i));
    }
  }
}

TEST_P(OptimizerOp, LambGivesTheNumbersOfAWorkedExample) {
  const LambSettings settings{.learning_rate = 0.1, .clip_scale = 0.2};
  for (const bool decay : {true, false}) {
    LambOnDevice got(device(), {{{{3.0, 4.0}, {0.0, 0.0}, {0.0, 0.0}}, {3.0, 4.0}, decay}});
    got.update(settings);
    testing::expect_close(got.part(0, LambOnDevice::kM).values(), {0.06, 0.08}, {.relative = 4.0 * testing::kF32Unit});
    // Printed to six and seven digits; without decay eps = 1e-6 beside 0.6 takes 2e-7 off the step of 0.1.
    testing::expect_close({got.trust_ratio(0)}, {decay ? 3.41594 : 1.0}, {.absolute = 1e-5});
    testing::expect_close(got.part(0, LambOnDevice::kWeight).values(), decay ? Values{2.648159, 3.644743} : Values{2.9, 3.9},
                          {.absolute = 1e-6});
  }
}

TEST_P(OptimizerOp, LambUsesARatioOfOneWhenANormIsZero) {
  LambOnDevice got(device(), {{{{0.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}, {3.0, 4.0}, true}, {{{0.0}, {0.0}, {0.0}}, {0.0}, true}});
  got.update({});
  EXPECT_EQ(got.trust_ratio(0), 1.0);
  EXPECT_EQ(got.trust_ratio(1), 1.0);
  EXPECT_EQ(got.part(1, LambOnDevice::kWeight).values()[0], 0.0);
  for (const double weight : got.part(0, LambOnDevice::kWeight).values()) EXPECT_TRUE(std::isfinite(weight));
}

TEST_P(OptimizerOp, LambChangesNothingWhenAGradientIsBad) {
  std::vector<LambTensor> tensors = random_tensors(603);
  tensors[3].gradient[5] = std::numeric_limits<double>::quiet_NaN();
  LambOnDevice got(device(), tensors);
  const std::vector<std::byte> before = got.bytes();
  got.update({.first_bad = 3});
  EXPECT_TRUE(got.bytes() == before);
}

TEST_P(OptimizerOp, LambAcceptsNoParameters) {
  LambOnDevice got(device(), {});
  EXPECT_NO_THROW(got.update({}));
}

TEST_P(OptimizerOp, IsBitEqualForAnyThreadCount) {
  testing::RandomValues random(604);
  std::vector<LambTensor> tensors = random_tensors(604);
  tensors[0] = {{random.values(30001, Dtype::kF32), Values(30001, 0.0), Values(30001, 0.0)}, random.values(30001, Dtype::kF32), true};
  testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
    LambOnDevice got(on, tensors);
    got.update({.clip_scale = 0.5});
    std::vector<std::byte> bytes = got.bytes();
    const Norm norm = run_global_norm(on, {tensors[0].gradient, tensors[3].gradient}, 1.0F);
    const auto* const raw = reinterpret_cast<const std::byte*>(&norm);
    bytes.insert(bytes.end(), raw, raw + sizeof(norm));
    return bytes;
  });
}

FLASHBERT_FOR_DEVICES(OptimizerOp);

}  // namespace
}  // namespace flashbert
