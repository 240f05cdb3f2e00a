#include "core/cpu/cpu_context.h"
#include "kernels/cpu/cpu_ops.h"

namespace flashbert {

std::unique_ptr<Ops> make_ops(Context& context) {
  auto* const cpu = dynamic_cast<CpuContext*>(&context);
  check<EnvironmentError>(cpu != nullptr, "{}: this build has no operations for it", context.description());
  return std::make_unique<cpu::CpuOps>(*cpu);
}

}  // namespace flashbert
