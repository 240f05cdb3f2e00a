#include "core/cpu/cpu_context.h"
#include "core/error.h"

namespace flashbert {

std::unique_ptr<Context> make_context(const ContextOptions& options) {
  check<EnvironmentError>(options.device == Device::kCpu, "device cuda: this build has no CUDA backend; use --device cpu");
  return std::make_unique<CpuContext>(options.threads);
}

}  // namespace flashbert
