#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/cpu/cpu_context.h"
#include "core/rounding.h"
#include "kernels/args/common.h"
#include "kernels/cpu/rows/kernels.h"
#include "kernels/formulas.h"

namespace flashbert::cpu {

inline const RowKernels& row_kernels(const CpuContext& context) {
  switch (context.isa()) {
    case Isa::kAvx512Bf16:
      return kRowKernelsAvx512Bf16;
    case Isa::kAvx512:
      return kRowKernelsAvx512;
    case Isa::kAvx2:
      break;
  }
  return kRowKernelsAvx2;
}

/// Index of an activation's element type in the kernel tables.
inline std::size_t type_index(Dtype dtype) { return dtype == Dtype::kBf16 ? 1 : 0; }

/// Pointer to a row; null for an absent tensor.
inline const void* row_of(const ConstTensor& tensor, std::int64_t row) {
  return tensor
             ? static_cast<const std::byte*>(tensor.raw()) + row * tensor.row_stride() * static_cast<std::int64_t>(size_of(tensor.dtype()))
             : nullptr;
}
inline void* row_of(const Tensor& tensor, std::int64_t row) { return const_cast<void*>(row_of(ConstTensor(tensor), row)); }

/// Floats of one row of scratch, a multiple of a cache line.
inline std::int64_t row_floats(std::int64_t columns) { return round_up(columns, 16); }

/// Rows that one partial sum of parameter gradients covers; fixed, so that sums never depend on the thread count.
inline constexpr std::int64_t kGradientBlockRows = 64;

/// Elements of a flat range that one work item covers.
inline constexpr std::int64_t kFlatBlock = 16384;

/// Runs f(begin, count) over [0, elements) in blocks of kFlatBlock, shared among the context's threads.
template <class Function>
void for_flat_blocks(const CpuContext& context, std::int64_t elements, const Function& f) {
  const std::int64_t blocks = ceil_div(elements, kFlatBlock);
#pragma omp parallel for num_threads(context.threads()) schedule(static) if (blocks > 1)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * kFlatBlock;
    f(begin, std::min(kFlatBlock, elements - begin));
  }
}

/// Dropout rule of row `row` of an activation.
inline RowDropout row_dropout(const Dropout& dropout, const RowOrigin& origin, std::int32_t sequence, std::int64_t row) {
  const std::uint64_t sample = origin.sample_index.data<std::uint64_t>()[sequence];
  const auto position = static_cast<std::uint32_t>(origin.position.data<std::int32_t>()[row]);
  const Philox::Counter counter = dropout.counter(sample, 0, 0, 0);
  const Philox::Key key = dropout.key();
  return {key[0], key[1], counter[0], counter[1], counter[2], position, dropout.threshold(), dropout.keep_scale()};
}

}  // namespace flashbert::cpu
