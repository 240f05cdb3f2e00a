#include "kernels/args/cross_entropy.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::softmax_cross_entropy(const SoftmaxCrossEntropy& args) {
  const ArgumentCheck check("softmax_cross_entropy");
  check.matrix("logits", args.logits);
  check.that(args.classes >= 1 && args.classes <= args.logits.extent(1), "classes", "is not between 1 and the number of columns");
  check.dense("labels", args.labels, Dtype::kI32, {args.logits.extent(0)});
  if (args.gradient == SoftmaxCrossEntropy::Gradient::kInPlace) check.dense("scale", args.scale, Dtype::kF32, {1});
  check.dense("counters.nll_sum", args.counters.nll_sum, Dtype::kF64, {1});
  check.dense("counters.correct", args.counters.correct, Dtype::kI64, {1});
  check.dense("counters.counted", args.counters.counted, Dtype::kI64, {1});
  do_softmax_cross_entropy(args);
}

}  // namespace flashbert
