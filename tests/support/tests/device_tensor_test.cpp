#include "support/device_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

namespace flashbert::testing {
namespace {

class DeviceTensorTest : public ::testing::TestWithParam<TestTarget> {
 protected:
  TestDevice device_{GetParam().device};
};

TEST_P(DeviceTensorTest, IsPoisonedUntilFilled) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kF64}) {
    for (const double value : DeviceTensor(device_, dtype, {3, 5}).values()) EXPECT_TRUE(std::isnan(value));
  }
  EXPECT_EQ(DeviceTensor(device_, Dtype::kI32, {2}).values(), (std::vector<double>{-1.0, -1.0}));
}

TEST_P(DeviceTensorTest, GivesBackWhatWasPutIn) {
  const std::vector<double> values = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0};
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16, Dtype::kF64, Dtype::kU8, Dtype::kI32, Dtype::kU32, Dtype::kI64, Dtype::kU64}) {
    EXPECT_EQ(DeviceTensor(device_, dtype, {2, 3}, values).values(), values);
    EXPECT_EQ(DeviceTensor(device_, dtype, {2, 3}, values, RowGap{4}).values(), values);
  }
  EXPECT_TRUE(DeviceTensor(device_, Dtype::kF32, {0, 3}).values().empty());
}

TEST_P(DeviceTensorTest, RoundsToItsElementType) {
  EXPECT_EQ(DeviceTensor(device_, Dtype::kBf16, {1}, std::vector<double>{1.0 + 0x1p-9}).values()[0], 1.0);
}

TEST_P(DeviceTensorTest, LaysRowsAGapApart) {
  const DeviceTensor tensor(device_, Dtype::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}, RowGap{2});
  EXPECT_EQ(tensor.view().row_stride(), 5);
  EXPECT_EQ(tensor.view().data<float>()[5], 4.0F);
  EXPECT_TRUE(std::isnan(tensor.view().data<float>()[3]));
}

TEST_P(DeviceTensorTest, NoticesAWriteBeforeBehindAndBetweenItsRows) {
  DeviceTensor tensor(device_, Dtype::kF32, {2, 3}, {1, 2, 3, 4, 5, 6}, RowGap{2});
  auto* const bytes = static_cast<std::byte*>(tensor.view().raw());
  for (const int offset : {-1, 3 * 4, 5 * 4 - 1, 8 * 4}) {
    EXPECT_TRUE(tensor.guard_damage().empty());
    bytes[offset] = std::byte{0};
    EXPECT_FALSE(tensor.guard_damage().empty()) << offset;
    tensor.repair_guards();
  }
  EXPECT_EQ(tensor.values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceTensorTest, ::testing::ValuesIn(test_targets_of_devices()), name_of_target);

}  // namespace
}  // namespace flashbert::testing
