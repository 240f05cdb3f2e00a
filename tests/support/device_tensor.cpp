#include "support/device_tensor.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace flashbert::testing {
namespace {

constexpr std::int64_t kAlignment = 256;  // as buffers of an arena

std::int64_t span_elements(const Shape& shape, std::int64_t stride) {
  return shape.elements() == 0 ? 0 : (shape[0] - 1) * stride + shape.row_elements();
}

template <class T>
void write(std::byte* to, double value) {
  const auto element = static_cast<T>(value);
  std::memcpy(to, &element, sizeof(T));
}
template <>
void write<bf16>(std::byte* to, double value) {
  const bf16 element = to_bf16(static_cast<float>(value));
  std::memcpy(to, &element, sizeof(element));
}

template <class T>
double read(const std::byte* from) {
  T element;
  std::memcpy(&element, from, sizeof(T));
  return static_cast<double>(element);
}
template <>
double read<bf16>(const std::byte* from) {
  bf16 element;
  std::memcpy(&element, from, sizeof(element));
  return static_cast<double>(to_float(element));
}

/// Calls f with a value of the type that a dtype names.
template <class Function>
auto with_type(Dtype dtype, const Function& f) {
  switch (dtype) {
    case Dtype::kF32:
      return f(float{});
    case Dtype::kBf16:
      return f(bf16{});
    case Dtype::kF64:
      return f(double{});
    case Dtype::kU8:
      return f(std::uint8_t{});
    case Dtype::kI32:
      return f(std::int32_t{});
    case Dtype::kU32:
      return f(std::uint32_t{});
    case Dtype::kI64:
      return f(std::int64_t{});
    default:
      return f(std::uint64_t{});
  }
}

}  // namespace

DeviceTensor::DeviceTensor(const TestDevice& device, Dtype dtype, const Shape& shape, RowGap gap) {
  check<EnvironmentError>(device.context().device() == Device::kCpu, "test tensors live in host memory; this device has its own");
  const std::int64_t stride = shape.row_elements() + gap.elements;
  payload_bytes_ = span_elements(shape, stride) * static_cast<std::int64_t>(size_of(dtype));
  memory_.assign(static_cast<std::size_t>(payload_bytes_ + 2 * kGuardBytes + kAlignment), kPoison);
  const auto first = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlignment);
  payload_offset_ = kGuardBytes + (kAlignment - first) % kAlignment;
  view_ = Tensor(payload(), dtype, shape, stride);
}

DeviceTensor::DeviceTensor(const TestDevice& device, Dtype dtype, const Shape& shape, const std::vector<double>& values, RowGap gap)
    : DeviceTensor(device, dtype, shape, gap) {
  set(values);
}

DeviceTensor::~DeviceTensor() {
  const std::string damage = guard_damage();
  if (!damage.empty()) ADD_FAILURE() << damage;
}

std::byte* DeviceTensor::payload() const { return const_cast<std::byte*>(memory_.data()) + payload_offset_; }

DeviceTensor::Rows DeviceTensor::rows() const {
  const auto element = static_cast<std::int64_t>(size_of(view_.dtype()));
  if (view_.elements() == 0) return {0, 0, 0};
  const std::int64_t count = view_.rank() == 0 ? 1 : view_.extent(0);
  return {count, view_.shape().row_elements() * element, view_.row_stride() * element};
}

void DeviceTensor::set_bytes(const std::vector<std::byte>& bytes) {
  check<ShapeError>(static_cast<std::int64_t>(bytes.size()) == view_.bytes(), "{} bytes for a tensor of {}", bytes.size(), view_.bytes());
  const Rows r = rows();
  for (std::int64_t row = 0; row < r.count; ++row) {
    std::memcpy(payload() + row * r.stride, bytes.data() + row * r.bytes, static_cast<std::size_t>(r.bytes));
  }
}

std::vector<std::byte> DeviceTensor::bytes() const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(view_.bytes()));
  const Rows r = rows();
  for (std::int64_t row = 0; row < r.count; ++row) {
    std::memcpy(bytes.data() + row * r.bytes, payload() + row * r.stride, static_cast<std::size_t>(r.bytes));
  }
  return bytes;
}

void DeviceTensor::set(const std::vector<double>& values) {
  const std::size_t element = size_of(view_.dtype());
  std::vector<std::byte> bytes(values.size() * element);
  with_type(view_.dtype(), [&](auto type) {
    for (std::size_t i = 0; i < values.size(); ++i) write<decltype(type)>(bytes.data() + i * element, values[i]);
    return 0;
  });
  set_bytes(bytes);
}

std::vector<double> DeviceTensor::values() const {
  const std::size_t element = size_of(view_.dtype());
  const std::vector<std::byte> raw = bytes();
  std::vector<double> values(static_cast<std::size_t>(view_.elements()));
  with_type(view_.dtype(), [&](auto type) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = read<decltype(type)>(raw.data() + i * element);
    return 0;
  });
  return values;
}

std::string DeviceTensor::guard_damage() const {
  const auto changed = [](std::byte value) { return value != kPoison; };
  const std::byte* const begin = memory_.data();
  const std::byte* const first = payload();
  const std::byte* const end = first + payload_bytes_;
  const std::byte* at = std::find_if(begin, first, changed);
  if (at != first) return fmt::format("a byte {} before a tensor of shape {} was written", first - at, view_.shape().text());
  at = std::find_if(end, begin + memory_.size(), changed);
  if (at != begin + memory_.size()) return fmt::format("byte {} after a tensor of shape {} was written", at - end, view_.shape().text());
  const Rows r = rows();
  for (std::int64_t row = 0; row + 1 < r.count; ++row) {
    const std::byte* const gap = first + row * r.stride + r.bytes;
    const std::byte* const gap_end = first + (row + 1) * r.stride;
    at = std::find_if(gap, gap_end, changed);
    if (at != gap_end) return fmt::format("byte {} behind row {} of shape {} was written", at - gap, row, view_.shape().text());
  }
  return {};
}

void DeviceTensor::repair_guards() {
  const std::vector<std::byte> kept = bytes();
  std::fill(memory_.begin(), memory_.end(), kPoison);
  set_bytes(kept);
}

}  // namespace flashbert::testing
