#include "kernels/cpu/rows/layer_norm.h"

#include <omp.h>

#include <cstring>

#include "core/rounding.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kKeepSlack = 16;  // the mask kernel writes whole vectors of bytes

std::int64_t keep_bytes(std::int64_t columns) { return round_up(columns / 8 + kKeepSlack, 64); }

constexpr std::int64_t kMergeColumns = 256;  // columns of parameter gradients that one work item merges

std::int64_t gradient_blocks(std::int64_t rows) { return ceil_div(rows, kGradientBlockRows); }

const std::uint8_t* keep_row(const ConstTensor& keep_bits, std::int64_t row) {
  return static_cast<const std::uint8_t*>(row_of(keep_bits, row));
}

NormGradientBlock gradient_block(const NormGradient& args, std::int64_t block, float* dgamma, float* dbeta) {
  const std::int64_t first = block * kGradientBlockRows;
  const ConstTensor& keep = args.keep_of_output ? args.keep_of_output : args.keep_of_input;
  return {.dz = row_of(args.dz, first),
          .dx = row_of(args.dx, first),
          .dy = row_of(args.dy, first),
          .z = row_of(args.z, first),
          .dz_stride = args.dz.row_stride(),
          .dx_stride = args.dx.row_stride(),
          .dy_stride = args.dy.row_stride(),
          .z_stride = args.z.row_stride(),
          .keep_stride = keep.row_stride() * static_cast<std::int64_t>(sizeof(std::uint32_t)),
          .mean = args.mean.data<float>() + first,
          .rstd = args.rstd.data<float>() + first,
          .gamma = args.gamma.data<float>(),
          .dgamma = dgamma,
          .dbeta = dbeta,
          .keep_of_output = keep_row(args.keep_of_output, first),
          .keep_of_input = keep_row(args.keep_of_input, first),
          .keep_scale = args.keep_scale,
          .rows = std::min(kGradientBlockRows, args.dy.extent(0) - first),
          .columns = args.dy.extent(1)};
}

}  // namespace

std::int64_t norm_row_scratch_bytes(std::int64_t columns) {
  return row_floats(columns) * static_cast<std::int64_t>(sizeof(float)) + keep_bytes(columns);
}

const std::uint8_t* make_row_mask(const RowKernels& kernels, const Dropout& dropout, const RowOrigin& origin, Tensor keep_bits,
                                  std::int64_t row, std::int64_t columns, std::uint8_t* bytes) {
  const std::int32_t sequence = origin.sequence.data<std::int32_t>()[row];
  auto* const stored = static_cast<std::uint8_t*>(row_of(keep_bits, row));
  const std::int64_t stored_bytes = keep_words(columns) * static_cast<std::int64_t>(sizeof(std::uint32_t));
  if (sequence < 0) {
    std::memset(stored, 0xff, static_cast<std::size_t>(stored_bytes));
    return nullptr;
  }
  kernels.dropout_row(row_dropout(dropout, origin, sequence, row), columns, bytes);
  std::memset(stored, 0, static_cast<std::size_t>(stored_bytes));
  std::memcpy(stored, bytes, static_cast<std::size_t>(columns / 8));
  return bytes;
}

void CpuOps::do_dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args) {
  const RowKernels& kernels = row_kernels(context());
  const std::int64_t rows = args.x.extent(0);
  const std::int64_t columns = args.x.extent(1);
  const std::size_t type = type_index(args.x.dtype());
  const std::int64_t bytes_per_thread = norm_row_scratch_bytes(columns);
  std::byte* const all_scratch = scratch("dropout_add_layer_norm_forward", bytes_per_thread * context().threads());
  const float keep_scale = args.dropout.keep_scale();
#pragma omp parallel num_threads(context().threads()) if (rows > 8)
  {
    std::byte* const own = all_scratch + omp_get_thread_num() * bytes_per_thread;
    auto* const buffer = reinterpret_cast<float*>(own);
    auto* const mask = reinterpret_cast<std::uint8_t*>(own + row_floats(columns) * static_cast<std::int64_t>(sizeof(float)));
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint8_t* const keep =
          args.dropout.active() ? make_row_mask(kernels, args.dropout, args.origin, args.keep_bits, row, columns, mask) : nullptr;
      const float sum = kernels.add_row[type](buffer, row_of(args.x, row), row_of(args.residual, row), keep, keep_scale, columns);
      NormaliseRow normalise{.row = buffer,
                             .sum = sum,
                             .gamma = args.gamma.data<float>(),
                             .beta = args.beta.data<float>(),
                             .y = row_of(args.y, row),
                             .z = row_of(args.z, row),
                             .eps = args.eps,
                             .columns = columns};
      kernels.normalise_row[type](normalise);
      args.mean.data<float>()[row] = normalise.mean;
      args.rstd.data<float>()[row] = normalise.rstd;
    }
  }
}

std::int64_t norm_gradient_scratch_bytes(std::int64_t rows, std::int64_t columns) {
  return gradient_blocks(rows) * 2 * row_floats(columns) * static_cast<std::int64_t>(sizeof(float));
}

void norm_gradient(const CpuContext& context, const NormGradient& args, std::byte* scratch) {
  const RowKernels& kernels = row_kernels(context);
  const std::int64_t columns = args.dy.extent(1);
  const std::int64_t width = row_floats(columns);
  const std::int64_t blocks = gradient_blocks(args.dy.extent(0));
  const std::int64_t slices = ceil_div(columns, kMergeColumns);
  const std::size_t type = type_index(args.dy.dtype());
  auto* const partials = reinterpret_cast<float*>(scratch);  // (blocks, dgamma and dbeta, width)
#pragma omp parallel num_threads(context.threads()) if (blocks > 1)
  {
#pragma omp for schedule(static)
    for (std::int64_t block = 0; block < blocks; ++block) {
      float* const dgamma = partials + block * 2 * width;
      std::memset(dgamma, 0, static_cast<std::size_t>(2 * width) * sizeof(float));
      kernels.norm_gradient_block[type](gradient_block(args, block, dgamma, dgamma + width));
    }
#pragma omp for schedule(static)
    for (std::int64_t item = 0; item < 2 * slices; ++item) {
      const std::int64_t column = item / 2 * kMergeColumns;
      const std::int64_t count = std::min(kMergeColumns, columns - column);
      float* const out = (item % 2 == 0 ? args.dgamma : args.dbeta).data<float>() + column;
      if (args.accumulate == Accumulate::kOverwrite) std::memset(out, 0, static_cast<std::size_t>(count) * sizeof(float));
      for (std::int64_t block = 0; block < blocks; ++block) {
        kernels.add[0](out, partials + (block * 2 + item % 2) * width + column, count);
      }
    }
  }
}

void CpuOps::do_dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args) {
  const std::int64_t bytes = norm_gradient_scratch_bytes(args.dy.extent(0), args.dy.extent(1));
  norm_gradient(context(),
                {.dz = args.dz,
                 .dx = args.dx,
                 .dgamma = args.dgamma,
                 .dbeta = args.dbeta,
                 .dy = args.dy,
                 .z = args.z,
                 .mean = args.mean,
                 .rstd = args.rstd,
                 .gamma = args.gamma,
                 .keep_of_output = {},
                 .keep_of_input = args.dropout.active() ? args.keep_bits : ConstTensor{},
                 .keep_scale = args.dropout.keep_scale(),
                 .accumulate = args.accumulate},
                scratch("dropout_add_layer_norm_backward", bytes));
}

std::int64_t layer_norm_scratch_bytes(const OpsPlan& plan, const CpuContext& context) {
  if (plan.hidden == 0) return 0;
  const std::int64_t forward = norm_row_scratch_bytes(plan.hidden) * context.threads();
  if (!plan.training) return forward;
  return std::max(forward, norm_gradient_scratch_bytes(std::max(plan.max_tokens, plan.max_logit_rows), plan.hidden));
}

}  // namespace flashbert::cpu
