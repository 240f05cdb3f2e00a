#include "kernels/args/linear.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {
namespace {

void check_before_gelu(const ArgumentCheck& check, const LinearForward& args) {
  if (!args.before_gelu) return;
  check.that(args.activation == Activation::kGelu, "before_gelu", "is kept by the activation GELU only");
  check.tensor("before_gelu", args.before_gelu, args.y.dtype(), args.y.shape());
  check.that(!same_memory(args.before_gelu, args.y), "before_gelu", "must not alias y");
  check.that(!same_memory(args.before_gelu, args.x), "before_gelu", "must not alias x");
}

void check_through_gelu(const ArgumentCheck& check, const LinearInputGradient& args) {
  if (args.before_gelu) {
    check.tensor("before_gelu", args.before_gelu, args.dx.dtype(), args.dx.shape());
    check.that(args.accumulate == Accumulate::kOverwrite, "before_gelu", "goes with accumulate = kOverwrite only");
    check.that(!same_memory(args.before_gelu, args.dx), "before_gelu", "must not alias dx");
  }
  if (!args.dbias) return;
  check.that(bool(args.before_gelu), "dbias", "needs before_gelu");
  check.dense("dbias", args.dbias, Dtype::kF32, {args.dx.extent(1)});
}

}  // namespace

void Ops::linear_pack(const LinearPack& args) {
  const ArgumentCheck check("linear_pack");
  check.present("weights.weight", args.weights.weight);
  check.rank("weights.weight", args.weights.weight, 2);
  check.compute_dtype("weights.weight", args.weights.weight);
  if (args.weights.pack) do_linear_pack(args);
}

void Ops::linear_forward(const LinearForward& args) {
  const ArgumentCheck check("linear_forward");
  const ConstTensor& weight = args.weights.weight;
  check.present("weights.weight", weight);
  check.rank("weights.weight", weight, 2);
  check.compute_dtype("weights.weight", weight);
  check.present("x", args.x);
  check.rank("x", args.x, 2);
  check.tensor("x", args.x, weight.dtype(), {args.x.extent(0), weight.extent(1)});
  check.present("y", args.y);
  check.compute_dtype("y", args.y);
  check.shape("y", args.y, {args.x.extent(0), weight.extent(0)});
  check.that(!same_memory(args.y, args.x), "y", "must not alias x");
  if (args.bias) check.dense("bias", args.bias, Dtype::kF32, {weight.extent(0)});
  check_before_gelu(check, args);
  do_linear_forward(args);
}

void Ops::linear_input_gradient(const LinearInputGradient& args) {
  const ArgumentCheck check("linear_input_gradient");
  const ConstTensor& weight = args.weights.weight;
  check.present("weights.weight", weight);
  check.rank("weights.weight", weight, 2);
  check.compute_dtype("weights.weight", weight);
  check.present("dy", args.dy);
  check.rank("dy", args.dy, 2);
  check.tensor("dy", args.dy, weight.dtype(), {args.dy.extent(0), weight.extent(0)});
  check.tensor("dx", args.dx, weight.dtype(), {args.dy.extent(0), weight.extent(1)});
  check.that(!same_memory(args.dx, args.dy), "dx", "must not alias dy");
  check_through_gelu(check, args);
  do_linear_input_gradient(args);
}

void Ops::linear_weight_gradient(const LinearWeightGradient& args) {
  const ArgumentCheck check("linear_weight_gradient");
  check.present("dy", args.dy);
  check.present("x", args.x);
  check.rank("dy", args.dy, 2);
  check.rank("x", args.x, 2);
  check.compute_dtype("dy", args.dy);
  check.tensor("x", args.x, args.dy.dtype(), {args.dy.extent(0), args.x.extent(1)});
  check.tensor("dweight", args.dweight, Dtype::kF32, {args.dy.extent(1), args.x.extent(1)});
  if (args.dbias) check.dense("dbias", args.dbias, Dtype::kF32, {args.dy.extent(1)});
  do_linear_weight_gradient(args);
}

}  // namespace flashbert
