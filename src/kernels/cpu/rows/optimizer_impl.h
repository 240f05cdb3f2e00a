// Sums of squares and LAMB over one chunk of a tensor.
#pragma once

#include "kernels/cpu/rows/kernels.h"
#include "kernels/cpu/rows/vectors_impl.h"

namespace flashbert::cpu {
namespace {

/// Sum of squares in f64: squares of finite f32 values neither overflow nor vanish there.
struct SquareSum {
  VecD low = zero_double();
  VecD high = zero_double();
  void add(VecF x) {
    const VecD x_low = low_double(x);
    const VecD x_high = high_double(x);
    low = fma_double(x_low, x_low, low);
    high = fma_double(x_high, x_high, high);
  }
  [[nodiscard]] double total() const { return sum_double(low + high); }
};

double sum_of_squares(const float* x, std::int64_t elements) {
  SquareSum even;
  SquareSum odd;
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= elements; i += 2 * kLanes) {
    even.add(load(x + i));
    odd.add(load(x + i + kLanes));
  }
  for_columns(elements - i, [&](auto lanes, std::int64_t k) { even.add(load_lanes(x + i + k, lanes)); });
  return even.total() + odd.total();
}

/// u = (m / c1) / (sqrt(v / c2) + eps) + wd * w; the quotient is 0 where its denominator is (eps = 0 and no gradient so far).
inline VecF lamb_direction(const LambScalars& s, VecF m, VecF v, VecF w) {
  const VecF denominator = fma(sqrt(v), splat(s.inverse_root_correction2), splat(s.epsilon));
  const VecF quotient = (m * splat(s.inverse_correction1)) / denominator;
  return fma(w, splat(s.decay), where_less(zero(), denominator, quotient, denominator));
}

void lamb_moments(LambChunk& a) {
  const LambScalars& s = a.scalars;
  SquareSum weight_squares;
  SquareSum update_squares;
  for_columns(a.elements, [&](auto lanes, std::int64_t i) {
    const VecF g = load_lanes(a.gradient + i, lanes) * splat(s.clip_scale);
    const VecF w = load_lanes(a.weight + i, lanes);
    const VecF m = fma(splat(s.beta1), load_lanes(a.m + i, lanes), splat(s.one_minus_beta1) * g);
    const VecF v = fma(splat(s.beta2), load_lanes(a.v + i, lanes), splat(s.one_minus_beta2) * (g * g));
    store_lanes(a.m + i, m, lanes);
    store_lanes(a.v + i, v, lanes);
    weight_squares.add(w);
    update_squares.add(lamb_direction(s, m, v, w));
  });
  a.weight_squares = weight_squares.total();
  a.update_squares = update_squares.total();
}

void lamb_apply(LambChunk& a) {
  Half* const compute = static_cast<Half*>(a.compute);
  for_columns(a.elements, [&](auto lanes, std::int64_t i) {
    const VecF w = load_lanes(a.weight + i, lanes);
    const VecF u = lamb_direction(a.scalars, load_lanes(a.m + i, lanes), load_lanes(a.v + i, lanes), w);
    const VecF next = fma(u, splat(-a.step), w);
    store_lanes(a.weight + i, next, lanes);
    if (compute != nullptr) store_lanes(compute + i, next, lanes);
  });
}

}  // namespace
}  // namespace flashbert::cpu
