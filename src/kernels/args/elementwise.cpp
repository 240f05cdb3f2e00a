#include "kernels/args/elementwise.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

namespace {

/// Contiguous f32|bf16 tensors of one type and shape.
void check_alike(const ArgumentCheck& check, const char* name, const ConstTensor& tensor, const ConstTensor& first) {
  check.present(name, tensor);
  check.compute_dtype(name, tensor);
  check.dense(name, tensor, first.dtype(), first.shape());
}

}  // namespace

void Ops::gelu_forward(const GeluForward& args) {
  const ArgumentCheck check("gelu_forward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "y", args.y, args.x);
  do_gelu_forward(args);
}

void Ops::gelu_backward(const GeluBackward& args) {
  const ArgumentCheck check("gelu_backward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "dy", args.dy, args.x);
  check_alike(check, "dx", args.dx, args.x);
  do_gelu_backward(args);
}

void Ops::tanh_forward(const TanhForward& args) {
  const ArgumentCheck check("tanh_forward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "y", args.y, args.x);
  do_tanh_forward(args);
}

void Ops::tanh_backward(const TanhBackward& args) {
  const ArgumentCheck check("tanh_backward");
  check_alike(check, "y", args.y, args.y);
  check_alike(check, "dy", args.dy, args.y);
  check_alike(check, "dx", args.dx, args.y);
  do_tanh_backward(args);
}

void Ops::gather_rows(const GatherRows& args) {
  const ArgumentCheck check("gather_rows");
  check.matrix("in", args.in);
  check.matrix("out", args.out, args.in.dtype(), args.in.extent(1));
  check.apart("out", args.out, "in", args.in);
  check.dense("index", args.index, Dtype::kI32, {args.out.extent(0)});
  do_gather_rows(args);
}

void Ops::scatter_add_rows(const ScatterAddRows& args) {
  const ArgumentCheck check("scatter_add_rows");
  check.matrix("in", args.in);
  check.matrix("out", args.out, args.in.dtype(), args.in.extent(1));
  check.apart("out", args.out, "in", args.in);
  check.dense("index", args.index, Dtype::kI32, {args.in.extent(0)});
  do_scatter_add_rows(args);
}

void Ops::cast(const Cast& args) {
  const ArgumentCheck check("cast");
  check_alike(check, "from", args.from, args.from);
  check.present("to", args.to);
  check.compute_dtype("to", args.to);
  check.dense("to", args.to, args.to.dtype(), args.from.shape());
  do_cast(args);
}

void Ops::scaled_copy(const ScaledCopy& args) {
  const ArgumentCheck check("scaled_copy");
  check.present("x", args.x);
  check.dense("x", args.x, Dtype::kF32, args.x.shape());
  check.dense("y", args.y, Dtype::kF32, args.x.shape());
  if (args.scale) check.dense("scale", args.scale, Dtype::kF32, {1});
  do_scaled_copy(args);
}

}  // namespace flashbert
