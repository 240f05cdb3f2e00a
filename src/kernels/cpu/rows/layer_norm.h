#pragma once

#include <cstdint>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows/dispatch.h"

namespace flashbert::cpu {

/// Bytes of scratch of one thread while a row is normalised: the row in f32 and its keep bytes.
std::int64_t norm_row_scratch_bytes(std::int64_t columns);

/// The mask of one row: computed into `bytes` (scratch), copied to keep_bits; all ones in the tail.
const std::uint8_t* make_row_mask(const RowKernels& kernels, const Dropout& dropout, const RowOrigin& origin, Tensor keep_bits,
                                  std::int64_t row, std::int64_t columns, std::uint8_t* bytes);

/// What the backward passes of both norm ops share; keep_of_output or keep_of_input (or neither) says where dropout stood.
struct NormGradient {
  Tensor dz, dx, dgamma, dbeta;
  ConstTensor dy, z, mean, rstd, gamma, keep_of_output, keep_of_input;
  float keep_scale = 1.0F;
  Accumulate accumulate = Accumulate::kAdd;
};
std::int64_t norm_gradient_scratch_bytes(std::int64_t rows, std::int64_t columns);
void norm_gradient(const CpuContext& context, const NormGradient& args, std::byte* scratch);

}  // namespace flashbert::cpu
