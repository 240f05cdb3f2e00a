#include <omp.h>

#include "core/rounding.h"
#include "kernels/cpu/rows/layer_norm.h"

namespace flashbert::cpu {

void CpuOps::do_embeddings_forward(const EmbeddingsForward& args) {
  const RowKernels& kernels = row_kernels(context());
  const std::int64_t rows = args.token_ids.extent(0);
  const std::int64_t columns = args.word.extent(1);
  const std::size_t type = type_index(args.word.dtype());
  const std::int64_t bytes_per_thread = norm_row_scratch_bytes(columns);
  std::byte* const all_scratch = scratch("embeddings_forward", bytes_per_thread * context().threads());
  const auto* const token_ids = args.token_ids.data<std::int32_t>();
  const auto* const position_ids = args.position_ids.data<std::int32_t>();
  const auto* const segment_ids = args.segment_ids.data<std::int32_t>();
#pragma omp parallel num_threads(context().threads()) if (rows > 8)
  {
    std::byte* const own = all_scratch + omp_get_thread_num() * bytes_per_thread;
    auto* const buffer = reinterpret_cast<float*>(own);
    auto* const mask = reinterpret_cast<std::uint8_t*>(own + row_floats(columns) * static_cast<std::int64_t>(sizeof(float)));
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < rows; ++row) {
      const float sum = kernels.embedding_row[type](buffer, row_of(args.word, token_ids[row]), row_of(args.position, position_ids[row]),
                                                    row_of(args.segment, segment_ids[row]), columns);
      NormaliseRow normalise{
          .row = buffer,
          .sum = sum,
          .gamma = args.gamma.data<float>(),
          .beta = args.beta.data<float>(),
          .y = row_of(args.y, row),
          .z = row_of(args.z, row),
          .keep = args.dropout.active() ? make_row_mask(kernels, args.dropout, args.origin, args.keep_bits, row, columns, mask) : nullptr,
          .keep_scale = args.dropout.keep_scale(),
          .eps = args.eps,
          .columns = columns};
      kernels.normalise_row[type](normalise);
      args.mean.data<float>()[row] = normalise.mean;
      args.rstd.data<float>()[row] = normalise.rstd;
    }
  }
}

void CpuOps::do_embeddings_backward(const EmbeddingsBackward& args) {
  const std::int64_t bytes = norm_gradient_scratch_bytes(args.dy.extent(0), args.dy.extent(1));
  norm_gradient(context(),
                {.dz = args.dz,
                 .dx = {},
                 .dgamma = args.dgamma,
                 .dbeta = args.dbeta,
                 .dy = args.dy,
                 .z = args.z,
                 .mean = args.mean,
                 .rstd = args.rstd,
                 .gamma = args.gamma,
                 .keep_of_output = args.dropout.active() ? args.keep_bits : ConstTensor{},
                 .keep_of_input = {},
                 .keep_scale = args.dropout.keep_scale(),
                 .accumulate = args.accumulate},
                scratch("embeddings_backward", bytes));
}

namespace {

constexpr std::int64_t kLongRun = 64;       // rows; longer runs are cut into column slices
constexpr std::int64_t kSliceColumns = 64;  // one or two cache lines of a row of dz

/// The longest list of long runs among `rows` sorted rows, in bytes of i32.
std::int64_t long_run_bytes(std::int64_t rows) { return (rows / kLongRun + 1) * static_cast<std::int64_t>(sizeof(std::int32_t)); }

SumRows run_columns(const EmbeddingGradient& args, std::int64_t run, std::int64_t column, std::int64_t columns) {
  const auto* const starts = args.starts.data<std::int32_t>();
  const std::int64_t element_bytes = static_cast<std::int64_t>(size_of(args.dz.dtype()));
  return {.out = static_cast<float*>(row_of(args.dtable, args.ids.data<std::int32_t>()[run])) + column,
          .dz = static_cast<const std::byte*>(args.dz.raw()) + column * element_bytes,
          .row_stride = args.dz.row_stride(),
          .order = args.order.data<std::int32_t>() + starts[run],
          .count = starts[run + 1] - starts[run],
          .columns = columns};
}

}  // namespace

void CpuOps::do_embedding_gradient(const EmbeddingGradient& args) {
  // A short run is one work item. The long ones ([MASK], both rows of the segment table) are cut into slices of columns, so that two
  // runs still give H / 32 items. Either way each element of the table is owned by one item, which adds blocks of rows in order.
  const RowKernels& kernels = row_kernels(context());
  const std::int64_t columns = args.dtable.extent(1);
  const std::int64_t slices = ceil_div(columns, kSliceColumns);
  const std::int64_t runs = args.runs.data<std::int32_t>()[0];
  const std::size_t type = type_index(args.dz.dtype());
  const auto* const starts = args.starts.data<std::int32_t>();
  auto* const long_runs = reinterpret_cast<std::int32_t*>(scratch("embedding_gradient", long_run_bytes(args.order.extent(0))));
  std::int64_t long_count = 0;
  for (std::int64_t run = 0; run < runs; ++run) {
    if (starts[run + 1] - starts[run] > kLongRun) long_runs[long_count++] = static_cast<std::int32_t>(run);
  }
#pragma omp parallel num_threads(context().threads()) if (runs * columns > kFlatBlock || long_count > 0)
  {
#pragma omp for schedule(dynamic, 1) nowait
    for (std::int64_t item = 0; item < long_count * slices; ++item) {
      const std::int64_t column = item % slices * kSliceColumns;
      kernels.sum_rows[type](run_columns(args, long_runs[item / slices], column, std::min(kSliceColumns, columns - column)));
    }
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t run = 0; run < runs; ++run) {
      if (starts[run + 1] - starts[run] <= kLongRun) kernels.sum_rows[type](run_columns(args, run, 0, columns));
    }
  }
}

std::int64_t embeddings_scratch_bytes(const OpsPlan& plan, const CpuContext& context) {
  const std::int64_t norm = layer_norm_scratch_bytes(plan, context);
  return plan.training && plan.max_tokens > 0 ? std::max(norm, long_run_bytes(plan.max_tokens)) : norm;
}

}  // namespace flashbert::cpu
