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
  check.apart("before_gelu", args.before_gelu, "y", args.y);
  check.apart("before_gelu", args.before_gelu, "x", args.x);
}

void check_through_gelu(const ArgumentCheck& check, const LinearInputGradient& args) {
  if (args.before_gelu) {
    check.tensor("before_gelu", args.before_gelu, args.dx.dtype(), args.dx.shape());
    check.that(args.accumulate == Accumulate::kOverwrite, "before_gelu", "goes with accumulate = kOverwrite only");
    check.apart("before_gelu", args.before_gelu, "dx", args.dx);
  }
  if (!args.dbias) return;
  check.that(bool(args.before_gelu), "dbias", "needs before_gelu");
  check.dense("dbias", args.dbias, Dtype::kF32, {args.dx.extent(1)});
}

}  // namespace

void Ops::linear_pack(const LinearPack& args) {
  const ArgumentCheck check("linear_pack");
  check.matrix("weights.weight", args.weights.weight);
  if (args.weights.pack) do_linear_pack(args);
}

void Ops::linear_forward(const LinearForward& args) {
  const ArgumentCheck check("linear_forward");
  const ConstTensor& weight = args.weights.weight;
  check.matrix("weights.weight", weight);
  check.matrix("x", args.x, weight.dtype(), weight.extent(1));
  check.present("y", args.y);
  check.compute_dtype("y", args.y);
  check.shape("y", args.y, {args.x.extent(0), weight.extent(0)});
  check.apart("y", args.y, "x", args.x);
  if (args.bias) check.dense("bias", args.bias, Dtype::kF32, {weight.extent(0)});
  check_before_gelu(check, args);
  do_linear_forward(args);
}

void Ops::linear_input_gradient(const LinearInputGradient& args) {
  const ArgumentCheck check("linear_input_gradient");
  const ConstTensor& weight = args.weights.weight;
  check.matrix("weights.weight", weight);
  check.matrix("dy", args.dy, weight.dtype(), weight.extent(0));
  check.tensor("dx", args.dx, weight.dtype(), {args.dy.extent(0), weight.extent(1)});
  check.apart("dx", args.dx, "dy", args.dy);
  check_through_gelu(check, args);
  do_linear_input_gradient(args);
}

void Ops::linear_weight_gradient(const LinearWeightGradient& args) {
  const ArgumentCheck check("linear_weight_gradient");
  check.matrix("dy", args.dy);
  check.matrix("x", args.x);
  check.tensor("x", args.x, args.dy.dtype(), {args.dy.extent(0), args.x.extent(1)});
  check.tensor("dweight", args.dweight, Dtype::kF32, {args.dy.extent(1), args.x.extent(1)});
  if (args.dbias) check.dense("dbias", args.dbias, Dtype::kF32, {args.dy.extent(1)});
  do_linear_weight_gradient(args);
}

}  // namespace flashbert
