#include "kernels/args/layer_norm.h"

#include "kernels/ops.h"
#include "kernels/validate_rows.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args) {
  const ArgumentCheck check("dropout_add_layer_norm_forward");
  check_rows(check, "x", args.x);
  const Shape rows = args.x.shape();
  check.tensor("y", args.y, args.x.dtype(), rows);
  check.apart("y", args.y, "x", args.x);
  check.apart("y", args.y, "residual", args.residual);
  check.apart("y", args.y, "z", args.z);
  if (args.residual) check.tensor("residual", args.residual, args.x.dtype(), rows);
  if (args.z) check.tensor("z", args.z, args.x.dtype(), rows);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("beta", args.beta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  check_origin(check, rows, args.dropout, args.origin);
  do_dropout_add_layer_norm_forward(args);
}

void Ops::dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args) {
  const ArgumentCheck check("dropout_add_layer_norm_backward");
  check_rows(check, "dy", args.dy);
  const Shape rows = args.dy.shape();
  check.tensor("z", args.z, args.dy.dtype(), rows);
  check.tensor("dz", args.dz, args.dy.dtype(), rows);
  check.that(args.dx || !args.dropout.active(), "dx", "is absent although dropout is active");
  if (args.dx) check.tensor("dx", args.dx, args.dy.dtype(), rows);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("dgamma", args.dgamma, Dtype::kF32, {rows[1]});
  check.dense("dbeta", args.dbeta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  do_dropout_add_layer_norm_backward(args);
}

}  // namespace flashbert
