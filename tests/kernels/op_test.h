#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/ops.h"
#include "reference/dropout.h"
#include "support/compare.h"
#include "support/device_tensor.h"
#include "support/random_values.h"
#include "support/test_device.h"

namespace flashbert::testing {

/// A test of an op on one device with one compute dtype.
class OpTest : public ::testing::TestWithParam<TestTarget> {
 protected:
  [[nodiscard]] Dtype dtype() const { return GetParam().dtype; }
  [[nodiscard]] Ops& ops() const { return device_.ops(); }
  [[nodiscard]] const TestDevice& device() const { return device_; }
  /// In the compute dtype, f32 or i32.
  [[nodiscard]] DeviceTensor typed(const Shape& shape, const std::vector<double>& values, RowGap gap = {}) const {
    return {device_, dtype(), shape, values, gap};
  }
  [[nodiscard]] DeviceTensor f32(const Shape& shape, const std::vector<double>& values) const {
    return {device_, Dtype::kF32, shape, values};
  }
  [[nodiscard]] DeviceTensor i32(const std::vector<std::int32_t>& values) const { return make_i32(device_, values); }
  [[nodiscard]] DeviceTensor empty(Dtype type, const Shape& shape, RowGap gap = {}) const { return {device_, type, shape, gap}; }

  static DeviceTensor make_i32(const TestDevice& device, const std::vector<std::int32_t>& values) {
    return {device, Dtype::kI32, {static_cast<std::int64_t>(values.size())}, std::vector<double>(values.begin(), values.end())};
  }

 private:
  TestDevice device_{GetParam().device};
};

/// Instantiates a fixture's tests for every device and compute dtype, or for every device.
#define FLASHBERT_FOR_DEVICES_AND_DTYPES(Fixture)                                                       \
  INSTANTIATE_TEST_SUITE_P(Targets, Fixture, ::testing::ValuesIn(::flashbert::testing::test_targets()), \
                           ::flashbert::testing::name_of_target)
#define FLASHBERT_FOR_DEVICES(Fixture)                                                                             \
  INSTANTIATE_TEST_SUITE_P(Targets, Fixture, ::testing::ValuesIn(::flashbert::testing::test_targets_of_devices()), \
                           ::flashbert::testing::name_of_target)

/// Sample indices as a device tensor: they do not fit into doubles.
class SampleIndices {
 public:
  SampleIndices(const TestDevice& device, const std::vector<std::uint64_t>& indices)
      : tensor_(device, Dtype::kU64, {static_cast<std::int64_t>(indices.size())}) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(indices.data());
    tensor_.set_bytes({bytes, bytes + indices.size() * sizeof(std::uint64_t)});
  }
  operator ConstTensor() const { return tensor_; }

 private:
  DeviceTensor tensor_;
};

/// Adds the bytes of a tensor to a result.
inline void append(std::vector<std::byte>& to, const DeviceTensor& tensor) {
  const std::vector<std::byte> bytes = tensor.bytes();
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// body(device) returns bytes; they must be the same for 1, 2, 4 and 8 threads and when run again.
template <class Body>
void expect_same_bytes_for_any_thread_count(Device device, const Body& body) {
  const std::vector<std::byte> first = body(TestDevice(device, 1));
  ASSERT_FALSE(first.empty());
  for (const int threads : {1, 2, 4, 8}) EXPECT_TRUE(body(TestDevice(device, threads)) == first) << threads << " threads";
}

/// The bits that forward must leave: 1 where the factor of the mask is not 0, 0 past the last column.
inline std::vector<double> keep_bits_of(const std::vector<double>& mask, std::size_t columns) {
  const auto words = static_cast<std::size_t>(keep_words(static_cast<std::int64_t>(columns)));
  const std::size_t rows = columns == 0 ? 0 : mask.size() / columns;
  std::vector<double> bits;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t word = 0; word < words; ++word) {
      std::uint32_t value = 0;
      for (std::size_t c = word * 32; c < columns && c < word * 32 + 32; ++c) {
        if (mask[row * columns + c] != 0.0) value |= 1U << (c % 32);
      }
      bits.push_back(static_cast<double>(value));
    }
  }
  return bits;
}

/// What the call complains of; the test fails when it does not throw an E.
template <class E, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline std::int64_t as_extent(std::size_t value) { return static_cast<std::int64_t>(value); }

}  // namespace flashbert::testing
