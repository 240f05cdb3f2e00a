#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "support/test_device.h"

namespace flashbert::testing {

/// How a tensor lies in memory: elements between the end of a row and the start of the next.
struct RowGap {
  std::int64_t elements = 0;
};

/// A tensor in memory of a device, between guard bytes (directly before its first and after its last element), filled with 0xFF bytes (NaN
/// for floating types, -1 for integers). Guards and row gaps are checked when it dies: a changed byte fails the running test.
class DeviceTensor {
 public:
  static constexpr std::int64_t kGuardBytes = 256;
  static constexpr std::byte kPoison{0xff};

  DeviceTensor(const TestDevice& device, Dtype dtype, const Shape& shape, RowGap gap = {});
  /// Filled with values, each rounded to the element type.
  DeviceTensor(const TestDevice& device, Dtype dtype, const Shape& shape, const std::vector<double>& values, RowGap gap = {});
  ~DeviceTensor();
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;
  DeviceTensor(DeviceTensor&&) = delete;
  DeviceTensor& operator=(DeviceTensor&&) = delete;

  operator Tensor() const { return view_; }
  operator ConstTensor() const { return view_; }
  [[nodiscard]] Tensor view() const { return view_; }
  void set(const std::vector<double>& values);
  /// Elements in row-major order without the gaps. 64-bit integers above 2^53 do not fit; take bytes().
  [[nodiscard]] std::vector<double> values() const;
  /// The elements' bytes without the gaps.
  [[nodiscard]] std::vector<std::byte> bytes() const;
  void set_bytes(const std::vector<std::byte>& bytes);
  /// Empty when every guard and gap byte is untouched, else where the first changed one is.
  [[nodiscard]] std::string guard_damage() const;
  /// Poisons the guards again, for a test of the check itself.
  void repair_guards();

 private:
  struct Rows {
    std::int64_t count, bytes, stride;
  };
  [[nodiscard]] Rows rows() const;
  [[nodiscard]] std::byte* payload() const;

  std::vector<std::byte> memory_;
  std::int64_t payload_offset_ = 0;
  std::int64_t payload_bytes_ = 0;
  Tensor view_;
};

}  // namespace flashbert::testing
