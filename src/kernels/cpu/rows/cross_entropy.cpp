#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows/dispatch.h"

namespace flashbert::cpu {
namespace {

struct RowOutcome {
  double nll = 0.0;
  std::int64_t correct = 0;
};

}  // namespace

void CpuOps::do_softmax_cross_entropy(const SoftmaxCrossEntropy& args) {
  const std::int64_t rows = args.logits.extent(0);
  const std::int64_t columns = args.logits.extent(1);
  const std::size_t type = type_index(args.logits.dtype());
  const RowKernels& kernels = row_kernels(context());
  const bool gradient = args.gradient == SoftmaxCrossEntropy::Gradient::kInPlace;
  const float scale = gradient ? args.scale.data<float>()[0] : 0.0F;
  const auto* const labels = args.labels.data<std::int32_t>();
  auto* const outcomes =
      reinterpret_cast<RowOutcome*>(scratch("softmax_cross_entropy", rows * static_cast<std::int64_t>(sizeof(RowOutcome))));
#pragma omp parallel for num_threads(context().threads()) schedule(dynamic, 1) if (rows * columns > kFlatBlock)
  for (std::int64_t row = 0; row < rows; ++row) {
    void* const logits = row_of(args.logits, row);
    if (labels[row] < 0) {
      if (gradient) std::memset(logits, 0, static_cast<std::size_t>(columns) * size_of(args.logits.dtype()));
      continue;
    }
    CrossEntropyRow work{
        .logits = logits, .classes = args.classes, .columns = columns, .label = labels[row], .scale = scale, .gradient = gradient};
    kernels.cross_entropy_row[type](work);
    outcomes[row] = {work.nll, work.correct ? 1 : 0};
  }
  double nll = 0.0;
  std::int64_t correct = 0;
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (labels[row] < 0) continue;
    nll += outcomes[row].nll;
    correct += outcomes[row].correct;
    ++counted;
  }
  args.counters.nll_sum.data<double>()[0] += nll;
  args.counters.correct.data<std::int64_t>()[0] += correct;
  args.counters.counted.data<std::int64_t>()[0] += counted;
}

std::int64_t cross_entropy_scratch_bytes(const OpsPlan& plan, const CpuContext& /*context*/) {
  return std::max(plan.max_logit_rows, plan.max_tokens) * static_cast<std::int64_t>(sizeof(RowOutcome));
}

}  // namespace flashbert::cpu
