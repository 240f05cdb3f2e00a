#include "kernels/device_peak.h"

#include "core/error.h"
#include "kernels/cpu/peak/peak.h"

namespace flashbert {

double measured_peak_flops(const Context& context, Dtype dtype) {
  const auto* const cpu = dynamic_cast<const CpuContext*>(&context);
  check<EnvironmentError>(cpu != nullptr, "{}: this build cannot measure its peak", context.description());
  return cpu::peak_gflops(*cpu, dtype, {.threads = cpu->threads()}) * 1e9;
}

double measured_host_bandwidth() {
  CpuContext one_thread(1);
  return cpu::triad_gbytes_per_second(one_thread, {.threads = 1}) * 1e9;
}

}  // namespace flashbert
