#include <omp.h>

#include "kernels/cpu/layer_norm.h"

namespace flashbert::cpu {

void CpuOps::do_embeddings_forward(const EmbeddingsForward& args) {
  const RowKernels& kernels = row_kernels(context());
  const std::int64_t rows = args.token_ids.extent(0);
  const std::int64_t columns = args.word.extent(1);
  const std::size_t type = type_index(args.word.dtype());
  const std::int64_t bytes_per_thread = norm_row_scratch_bytes(columns);
  std::byte* const all_scratch = scratch(bytes_per_thread * context().threads());
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
      kernels.embedding_row[type](buffer, row_of(args.word, token_ids[row]), row_of(args.position, position_ids[row]),
                                  row_of(args.segment, segment_ids[row]), columns);
      NormaliseRow normalise{
          .row = buffer,
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
  const std::int64_t bytes = norm_gradient_scratch_bytes(args.dy.extent(0), args.dy.extent(1), context().threads());
  norm_gradient(row_kernels(context()),
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
                scratch(bytes));
}

void CpuOps::do_embedding_gradient(const EmbeddingGradient& args) {
  // A work item is 64 columns of one run: a table of two segments still gives H / 32 items, and each output is owned by one item.
  constexpr std::int64_t kColumns = 64;
  const RowKernels& kernels = row_kernels(context());
  const std::int64_t columns = args.dtable.extent(1);
  const std::int64_t slices = (columns + kColumns - 1) / kColumns;
  const std::int64_t runs = args.runs.data<std::int32_t>()[0];
  const std::size_t type = type_index(args.dz.dtype());
  const std::int64_t element_bytes = static_cast<std::int64_t>(size_of(args.dz.dtype()));
  const auto* const order = args.order.data<std::int32_t>();
  const auto* const starts = args.starts.data<std::int32_t>();
  const auto* const ids = args.ids.data<std::int32_t>();
#pragma omp parallel for schedule(dynamic, 16) if (runs > 1)
  for (std::int64_t item = 0; item < runs * slices; ++item) {
    const std::int64_t run = item / slices;
    const std::int64_t column = item % slices * kColumns;
    kernels.sum_rows[type](static_cast<float*>(row_of(args.dtable, ids[run])) + column,
                           static_cast<const std::byte*>(args.dz.raw()) + column * element_bytes, args.dz.row_stride(), order + starts[run],
                           starts[run + 1] - starts[run], std::min(kColumns, columns - column));
  }
}

std::int64_t embeddings_scratch_bytes(const OpsPlan& plan, const Context& context) { return layer_norm_scratch_bytes(plan, context); }

}  // namespace flashbert::cpu
