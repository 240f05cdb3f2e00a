#include "kernels/args/optimizer.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::global_norm(const GlobalNorm& args) {
  const ArgumentCheck check("global_norm");
  check.dense("result.norm", args.result.norm, Dtype::kF32, {1});
  check.dense("result.clip_scale", args.result.clip_scale, Dtype::kF32, {1});
  check.dense("result.first_bad", args.result.first_bad, Dtype::kI32, {1});
  for (const ConstTensor& tensor : args.tensors) {
    check.present("tensors", tensor);
    check.dense("tensors", tensor, Dtype::kF32, tensor.shape());
  }
  do_global_norm(args);
}

void Ops::lamb_update(const LambUpdate& args) {
  const ArgumentCheck check("lamb_update");
  const auto count = static_cast<std::int64_t>(args.parameters.size());
  check.dense("scalars", args.scalars, Dtype::kF32, {kLambScalars});
  check.dense("clip_scale", args.clip_scale, Dtype::kF32, {1});
  check.dense("first_bad", args.first_bad, Dtype::kI32, {1});
  check.dense("weight_norm", args.weight_norm, Dtype::kF32, {count});
  check.dense("update_norm", args.update_norm, Dtype::kF32, {count});
  check.dense("trust_ratio", args.trust_ratio, Dtype::kF32, {count});
  for (const LambParameter& parameter : args.parameters) {
    check.present("weight", parameter.weight);
    const Shape shape = parameter.weight.shape();
    check.dense("weight", parameter.weight, Dtype::kF32, shape);
    check.dense("m", parameter.m, Dtype::kF32, shape);
    check.dense("v", parameter.v, Dtype::kF32, shape);
    check.dense("gradient", parameter.gradient, Dtype::kF32, shape);
    if (parameter.compute) check.dense("compute", parameter.compute, Dtype::kBf16, shape);
  }
  do_lamb_update(args);
}

}  // namespace flashbert
