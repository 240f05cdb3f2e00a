#include <bit>

#include "kernels/cpu/cpu_ops.h"

namespace flashbert::cpu {

void CpuOps::do_checksum(const Checksum& args) {
  std::uint64_t sum = 0;
  std::uint64_t before = 0;
  for (const ConstTensor& tensor : args.tensors) {
    const auto* const values = tensor.data<float>();
    const auto count = static_cast<std::uint64_t>(tensor.elements());
    std::uint64_t own = 0;
#pragma omp parallel for num_threads(context().threads()) schedule(static) reduction(+ : own)
    for (std::uint64_t i = 0; i < count; ++i) own += std::bit_cast<std::uint32_t>(values[i]) * (2 * (before + i) + 3);
    sum += own;
    before += count;
  }
  args.sum.data<std::uint64_t>()[0] = sum;
}

}  // namespace flashbert::cpu
