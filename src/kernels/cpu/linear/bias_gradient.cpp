#include "kernels/cpu/linear/bias_gradient.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/linear/common.h"

namespace flashbert::cpu {
namespace {

// Columns that one thread sums at a time: whole cache lines, and enough strips for many threads.
constexpr std::int64_t kStripColumns = 128;

void sum_strip(const BiasGradient& args, std::int64_t column) {
  const std::int64_t columns = std::min(kStripColumns, args.dy.extent(1) - column);
  float* const dbias = args.dbias.data<float>() + column;
  if (args.accumulate == Accumulate::kOverwrite) std::fill_n(dbias, columns, 0.0F);
  for (std::int64_t row = 0; row < args.dy.extent(0); row += kGradientDepth) {
    std::array<float, kStripColumns> sums{};
    add_column_sums(sums.data(), block_of(args.dy, row, column), std::min(kGradientDepth, args.dy.extent(0) - row), columns);
    for (std::int64_t c = 0; c < columns; ++c) dbias[c] += sums[static_cast<std::size_t>(c)];
  }
}

}  // namespace

void bias_gradient(const BiasGradient& args, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t strip = 0; strip < ceil_div(args.dy.extent(1), kStripColumns); ++strip) sum_strip(args, strip * kStripColumns);
}

}  // namespace flashbert::cpu
