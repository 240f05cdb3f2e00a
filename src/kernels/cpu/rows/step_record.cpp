#include "kernels/args/step_record.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/cpu/cpu_ops.h"

namespace flashbert::cpu {

// A handful of values once a step: no threads.

void CpuOps::do_add_quotients(const AddQuotients& args) {
  auto* const sum = args.sum.data<double>();
  const auto* const value = args.value.data<double>();
  const auto* const divisor = args.divisor.data<double>();
  for (std::int64_t i = 0; i < args.sum.extent(0); ++i) sum[i] += value[i] / divisor[i];
}

void CpuOps::do_hold_update(const HoldUpdate& args) {
  const auto values = [](const ConstTensor& tensor) {
    return std::span(tensor.data<double>(), static_cast<std::size_t>(tensor.elements()));
  };
  const auto finite = values(args.finite);
  const auto zero = values(args.zero);
  std::int32_t& held = *args.held.data<std::int32_t>();
  std::int32_t& first_bad = *args.first_bad.data<std::int32_t>();
  const bool well = held == 0 && first_bad == -1 &&
                    std::all_of(finite.begin(), finite.end(), [](double value) { return std::isfinite(value); }) &&
                    std::all_of(zero.begin(), zero.end(), [](double value) { return value == 0.0; });
  if (well) return;
  held = 1;
  if (first_bad == -1) first_bad = kHeldUpdate;
}

}  // namespace flashbert::cpu
