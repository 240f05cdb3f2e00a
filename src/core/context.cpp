#include "core/context.h"

#include <omp.h>

#include <cstdlib>

#include "core/cores.h"
#include "core/error.h"

namespace flashbert {
namespace {

Isa hardware_isa() {
  __builtin_cpu_init();
  check<EnvironmentError>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                          "this processor has no AVX2 and FMA; flashbert needs an x86-64 processor of 2013 or later");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::kAvx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::kAvx512Bf16 : Isa::kAvx512;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

Isa detect_isa() {
  const Isa hardware = hardware_isa();
  const char* const cap = std::getenv("FLASHBERT_MAX_ISA");
  if (cap == nullptr || *cap == '\0') return hardware;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (name_of(isa) == cap) return isa < hardware ? isa : hardware;
  }
  throw ConfigError(fmt::format("FLASHBERT_MAX_ISA is '{}'; choose avx2, avx512 or avx512_bf16", cap));
}

Context::Context(const ContextOptions& options)
    : device_(options.device), threads_(options.threads == 0 ? count_cores(bound_cores()) : options.threads), isa_(detect_isa()) {}

Device parse_device(std::string_view name) {
  if (name == "cpu" || name == "auto") return Device::kCpu;
  if (name == "cuda") return Device::kCuda;
  throw ConfigError(fmt::format("device is '{}'; choose cpu, cuda or auto", name));
}

std::unique_ptr<Context> make_context(const ContextOptions& options) {
  check<EnvironmentError>(options.device == Device::kCpu, "device cuda: this build has no CUDA backend; use --device cpu");
  check<ConfigError>(options.threads >= 0 && options.threads <= 1024, "threads is {}; choose 1 to 1024, or 0 for all cores",
                     options.threads);
  auto context = std::make_unique<Context>(options);
  omp_set_dynamic(0);
  omp_set_num_threads(context->threads());
  return context;
}

}  // namespace flashbert
