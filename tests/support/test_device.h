#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/cpu_context.h"
#include "kernels/ops.h"

namespace flashbert::testing {

/// What one body of a test runs on: a device, and the compute dtype where the op has one.
struct TestTarget {
  Device device = Device::kCpu;
  Dtype dtype = Dtype::kF32;
};

/// Every device of this build and machine.
std::vector<Device> test_devices();
/// Every device with f32 and bf16.
std::vector<TestTarget> test_targets();
/// Every device once, for ops without a compute dtype.
std::vector<TestTarget> test_targets_of_devices();
/// "cpu_bf16"; for INSTANTIATE_TEST_SUITE_P.
std::string name_of_target(const ::testing::TestParamInfo<TestTarget>& target);
/// For GoogleTest, which else prints the bytes of the struct, padding included.
void PrintTo(const TestTarget& target, std::ostream* stream);

/// A context and its ops. One at a time: a context sets the thread count of the process.
class TestDevice {
 public:
  static constexpr int kThreads = 2;
  explicit TestDevice(Device device, int threads = kThreads);
  [[nodiscard]] Context& context() const { return *context_; }
  /// For tests of the CPU backend's own parts.
  [[nodiscard]] CpuContext& cpu_context() const { return dynamic_cast<CpuContext&>(*context_); }
  [[nodiscard]] Ops& ops() const { return *ops_; }

 private:
  std::unique_ptr<Context> context_;
  std::unique_ptr<Ops> ops_;
};

}  // namespace flashbert::testing
