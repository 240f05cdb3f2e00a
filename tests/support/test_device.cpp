#include "support/test_device.h"

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

std::string name_of_target(const ::testing::TestParamInfo<TestTarget>& target) {
  return std::string(target.param.device == Device::kCpu ? "cpu" : "cuda") + "_" + std::string(name_of(target.param.dtype));
}

TestDevice::TestDevice(Device device, int threads)
    : context_(make_context({.device = device, .threads = threads})), ops_(make_ops(*context_)) {}

}  // namespace flashbert::testing
