#include "core/error.h"
#include "kernels/cpu/cpu_ops.h"

namespace flashbert {

std::unique_ptr<Ops> make_ops(Context& context) {
  check<EnvironmentError>(context.device() == Device::kCpu, "device cuda: this build has no CUDA backend; use --device cpu");
  return std::make_unique<cpu::CpuOps>(context);
}

}  // namespace flashbert
