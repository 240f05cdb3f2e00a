#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows/dispatch.h"

namespace flashbert::cpu {
namespace {

/// Byte address of element `index` of a contiguous tensor.
const void* at(const ConstTensor& tensor, std::int64_t index) {
  return static_cast<const std::byte*>(tensor.raw()) + index * static_cast<std::int64_t>(size_of(tensor.dtype()));
}
void* at(const Tensor& tensor, std::int64_t index) { return const_cast<void*>(at(ConstTensor(tensor), index)); }

}  // namespace

void CpuOps::do_gelu_forward(const GeluForward& args) {
  const auto kernel = row_kernels(context()).gelu_forward[type_index(args.x.dtype())];
  for_flat_blocks(context(), args.x.elements(),
                  [&](std::int64_t begin, std::int64_t count) { kernel(at(args.y, begin), at(args.x, begin), count); });
}

void CpuOps::do_gelu_backward(const GeluBackward& args) {
  const auto kernel = row_kernels(context()).gelu_backward[type_index(args.x.dtype())];
  for_flat_blocks(context(), args.x.elements(), [&](std::int64_t begin, std::int64_t count) {
    kernel(at(args.dx, begin), at(args.dy, begin), at(args.x, begin), count);
  });
}

void CpuOps::do_tanh_forward(const TanhForward& args) {
  const auto kernel = row_kernels(context()).tanh_forward[type_index(args.x.dtype())];
  for_flat_blocks(context(), args.x.elements(),
                  [&](std::int64_t begin, std::int64_t count) { kernel(at(args.y, begin), at(args.x, begin), count); });
}

void CpuOps::do_tanh_backward(const TanhBackward& args) {
  const auto kernel = row_kernels(context()).tanh_backward[type_index(args.y.dtype())];
  for_flat_blocks(context(), args.y.elements(), [&](std::int64_t begin, std::int64_t count) {
    kernel(at(args.dx, begin), at(args.dy, begin), at(args.y, begin), count);
  });
}

void CpuOps::do_gather_rows(const GatherRows& args) {
  const std::int64_t rows = args.out.extent(0);
  const auto* const index = args.index.data<std::int32_t>();
  const auto row_bytes = static_cast<std::size_t>(args.out.shape().row_elements()) * size_of(args.out.dtype());
#pragma omp parallel for num_threads(context().threads()) schedule(static) if (rows > 32)
  for (std::int64_t row = 0; row < rows; ++row) {
    if (index[row] < 0) {
      std::memset(row_of(args.out, row), 0, row_bytes);
    } else {
      std::memcpy(row_of(args.out, row), row_of(args.in, index[row]), row_bytes);
    }
  }
}

void CpuOps::do_scatter_add_rows(const ScatterAddRows& args) {
  const std::int64_t rows = args.in.extent(0);
  const auto* const index = args.index.data<std::int32_t>();
  const auto kernel = row_kernels(context()).add[type_index(args.in.dtype())];
  const std::int64_t columns = args.in.shape().row_elements();
#pragma omp parallel for num_threads(context().threads()) schedule(static) if (rows > 32)
  for (std::int64_t row = 0; row < rows; ++row) {
    if (index[row] >= 0) kernel(row_of(args.out, index[row]), row_of(args.in, row), columns);
  }
}

void CpuOps::do_cast(const Cast& args) {
  const auto kernel = row_kernels(context()).cast[type_index(args.from.dtype())][type_index(args.to.dtype())];
  for_flat_blocks(context(), args.from.elements(),
                  [&](std::int64_t begin, std::int64_t count) { kernel(at(args.to, begin), at(args.from, begin), count); });
}

void CpuOps::do_scaled_copy(const ScaledCopy& args) {
  const RowKernels& kernels = row_kernels(context());
  const float scale = args.factor * (args.scale ? args.scale.data<float>()[0] : 1.0F);
  float* const y = args.y.data<float>();
  const float* const x = args.x.data<float>();
  const bool accumulate = args.accumulate == Accumulate::kAdd;
  for_flat_blocks(context(), args.x.elements(),
                  [&](std::int64_t begin, std::int64_t count) { kernels.scaled_copy(y + begin, x + begin, scale, accumulate, count); });
}

}  // namespace flashbert::cpu
