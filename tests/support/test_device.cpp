#include "support/test_device.h"

#include <ostream>

namespace flashbert::testing {

std::vector<Device> test_devices() { return {Device::kCpu}; }

std::vector<TestTarget> test_targets() {
  std::vector<TestTarget> targets;
  for (const Device device : test_devices()) {
    for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) targets.push_back({device, dtype});
  }
  return targets;
}

std::vector<TestTarget> test_targets_of_devices() {
  std::vector<TestTarget> targets;
  for (const Device device : test_devices()) targets.push_back({device, Dtype::kF32});
  return targets;
}

namespace {
std::string text_of(const TestTarget& target) {
  return std::string(target.device == Device::kCpu ? "cpu" : "cuda") + "_" + std::string(name_of(target.dtype));
}
}  // namespace

std::string name_of_target(const ::testing::TestParamInfo<TestTarget>& target) { return text_of(target.param); }

void PrintTo(const TestTarget& target, std::ostream* stream) { *stream << text_of(target); }

TestDevice::TestDevice(Device device, int threads)
    : context_(make_context({.device = device, .threads = threads})), ops_(make_ops(*context_)) {}

}  // namespace flashbert::testing
