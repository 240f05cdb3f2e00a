#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;
using testing::TestDevice;
using Lists = std::vector<std::vector<double>>;

std::uint64_t checksum_on(const TestDevice& on, const Lists& lists) {
  std::vector<std::unique_ptr<DeviceTensor>> memory;
  std::vector<ConstTensor> tensors;
  for (const auto& values : lists) {
    memory.push_back(std::make_unique<DeviceTensor>(on, Dtype::kF32, Shape{testing::as_extent(values.size())}, values));
    tensors.emplace_back(*memory.back());
  }
  const DeviceTensor sum(on, Dtype::kU64, {1});
  on.ops().checksum({.sum = sum, .tensors = tensors});
  const std::vector<std::byte> bytes = sum.bytes();
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

/// By the definition.
std::uint64_t expected_checksum(const Lists& lists) {
  std::uint64_t sum = 0;
  std::uint64_t place = 0;
  for (const auto& values : lists) {
    for (const double value : values) sum += std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(value))} * (2 * place++ + 3);
  }
  return sum;
}

class ChecksumOp : public testing::OpTest {};

TEST_P(ChecksumOp, IsTheSumOfBitsTimesPlacesForAnyThreadCount) {
  testing::RandomValues random(831);
  const Lists lists = {random.values(1, Dtype::kF32), {}, random.values(7, Dtype::kF32), random.values(100001, Dtype::kF32), {-0.0, 0.0}};
  for (const int threads : {1, 2, 4}) {
    EXPECT_EQ(checksum_on(TestDevice(GetParam().device, threads), lists), expected_checksum(lists)) << threads << " threads";
  }
  EXPECT_EQ(checksum_on(device(), {}), 0U);
  EXPECT_EQ(checksum_on(device(), {{1.0}}), 3U * std::uint64_t{0x3f800000});
}

TEST_P(ChecksumOp, TellsPlacesAndTheLastBit) {
  const Lists lists = {{1.0, 2.0, 3.0}, {4.0}};
  const std::uint64_t sum = checksum_on(device(), lists) >> 1;
  EXPECT_NE(checksum_on(device(), {{2.0, 1.0, 3.0}, {4.0}}) >> 1, sum);
  EXPECT_NE(checksum_on(device(), {{1.0, 2.0, 4.0}, {3.0}}) >> 1, sum);
  EXPECT_NE(checksum_on(device(), {{1.0, 2.0, 3.0}, {4.0 + 0x1p-21}}) >> 1, sum);
  EXPECT_EQ(checksum_on(device(), {{1.0}, {2.0, 3.0, 4.0}}) >> 1, sum) << "where a tensor ends does not matter";
}

TEST_P(ChecksumOp, NamesTheWrongArgument) {
  const DeviceTensor sum(device(), Dtype::kU64, {1});
  const DeviceTensor integers(device(), Dtype::kI32, {4});
  const DeviceTensor gapped(device(), Dtype::kF32, {2, 4}, testing::RowGap{1});
  const std::vector<ConstTensor> wrong_type = {integers};
  const std::vector<ConstTensor> strided = {gapped};
  EXPECT_EQ(testing::message_of<DtypeError>([&] { ops().checksum({.sum = integers, .tensors = {}}); }), "checksum: sum is i32, not u64");
  EXPECT_EQ(testing::message_of<DtypeError>([&] { ops().checksum({.sum = sum, .tensors = wrong_type}); }),
            "checksum: tensors is i32, not f32");
  EXPECT_NE(testing::message_of<ShapeError>([&] { ops().checksum({.sum = sum, .tensors = strided}); }).find("contiguous"),
            std::string::npos);
}

FLASHBERT_FOR_DEVICES(ChecksumOp);

}  // namespace
}  // namespace flashbert
