#include "bench/bench_gemm.h"

#include <algorithm>

#include "bench/random_tensor.h"

namespace flashbert {

std::vector<BenchRow> bench_gemm(const BenchOptions& options, const GemmBenchOptions& shape) {
  const Backend backend = bench_backend(options);
  Ops& ops = *backend.ops;
  double peak = peak_flops(backend);
  const LinearShape linear = {.in = shape.in, .out = shape.out, .max_rows = shape.rows, .compute = backend.compute, .training = true};
  const RandomTensor x(*backend.context, backend.compute, {shape.rows, shape.in}, 1.0F);
  const RandomTensor y(*backend.context, backend.compute, {shape.rows, shape.out}, 1.0F);
  const RandomTensor dx(*backend.context, backend.compute, {shape.rows, shape.in}, 1.0F);
  const RandomTensor weight(*backend.context, backend.compute, {shape.out, shape.in}, 0.1F);
  const RandomTensor dweight(*backend.context, Dtype::kF32, {shape.out, shape.in}, 0.0F);
  const RandomTensor bias(*backend.context, Dtype::kF32, {shape.out}, 0.1F);
  const RandomTensor pack(*backend.context, Dtype::kU8, {std::max<std::int64_t>(ops.linear_pack_bytes(linear), 1)}, 0.0F);
  const LinearWeights weights = {weight.tensor(), ops.linear_pack_bytes(linear) > 0 ? pack.tensor() : Tensor{}};
  ops.linear_pack({weights});
  const double flops = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.in) * static_cast<double>(shape.out);
  const double forward = time_median(
      options.seconds, [&] { ops.linear_forward({.y = y.tensor(), .x = x.tensor(), .weights = weights, .bias = bias.tensor()}); });
  const double input_gradient =
      time_median(options.seconds, [&] { ops.linear_input_gradient({.dx = dx.tensor(), .dy = y.tensor(), .weights = weights}); });
  const double weight_gradient = time_median(
      options.seconds, [&] { ops.linear_weight_gradient({.dweight = dweight.tensor(), .dbias = {}, .dy = y.tensor(), .x = x.tensor()}); });
  peak = std::max(peak, peak_flops(backend));
  return {{"peak", {{"gflops", peak * 1e-9}}},
          product_row("forward", forward, flops, peak),
          product_row("input_gradient", input_gradient, flops, peak),
          product_row("weight_gradient", weight_gradient, flops, peak)};
}

}  // namespace flashbert
