// Kernels over flat ranges: GELU, tanh, sums, conversions.
#pragma once

#include "kernels/cpu/rows/vectors_impl.h"
#include "kernels/formula_constants.h"

namespace flashbert::cpu {
namespace {

/// Sets out[i] = f(lanes, i) over a flat range.
template <class T, class Function>
inline void map(T* out, std::int64_t elements, const Function& f) {
  for_columns(elements, [&](auto lanes, std::int64_t i) { store_lanes(out + i, f(lanes, i), lanes); });
}

// The vector form of gelu and gelu_slope in kernels/formulas.h: x * s with s = sigmoid(2u) = 1 / (1 + exp(-2u)).
constexpr float kGeluTwice = 2.0F * kGeluSqrt2OverPi;

inline VecF within_gelu_limit(VecF x) { return max(splat(-kGeluLimit), min(splat(kGeluLimit), x)); }
/// exp(-2u) for |x| <= kGeluLimit.
inline VecF gelu_exp(VecF x, VecF square) { return exp_bounded(splat(-kGeluTwice) * x * fma(square, splat(kGeluCubic), splat(1.0F))); }

template <class T>
void gelu_forward(void* y, const void* x_void, std::int64_t elements) {
  map(static_cast<T*>(y), elements, [&](auto lanes, std::int64_t i) {
    const VecF x = load_lanes(static_cast<const T*>(x_void) + i, lanes);
    const VecF bounded = within_gelu_limit(x);
    const VecF result = x / (splat(1.0F) + gelu_exp(bounded, bounded * bounded));
    return where_less(x, splat(-kGeluLimit), zero(), result);
  });
}

template <class T>
void gelu_backward(void* dx, const void* dy, const void* x_void, std::int64_t elements) {
  map(static_cast<T*>(dx), elements, [&](auto lanes, std::int64_t i) {
    const VecF x = load_lanes(static_cast<const T*>(x_void) + i, lanes);
    const VecF bounded = within_gelu_limit(x);
    const VecF square = bounded * bounded;
    const VecF tail = gelu_exp(bounded, square);
    const VecF sigmoid = splat(1.0F) / (splat(1.0F) + tail);
    const VecF complement = tail * sigmoid;
    const VecF twice_slope = splat(kGeluTwice) * fma(square, splat(3.0F * kGeluCubic), splat(1.0F));
    const VecF slope = fma(bounded * sigmoid * complement, twice_slope, sigmoid);
    return load_lanes(static_cast<const T*>(dy) + i, lanes) * where_less(x, splat(-kGeluLimit), zero(), slope);
  });
}

/// tanh: the odd series up to x^15 for |x| < 0.5 (error 1e-8), else (1 - t) / (1 + t) with t = exp(-2 |x|).
inline VecF tanh(VecF x) {
  const VecF magnitude = abs(x);
  const VecF t = exp_nonpositive(magnitude * splat(-2.0F));
  const VecF far = (splat(1.0F) - t) / (splat(1.0F) + t);
  const VecF s = x * x;
  VecF p = splat(-929569.0F / 638512875.0F);
  p = fma(p, s, splat(21844.0F / 6081075.0F));
  p = fma(p, s, splat(-1382.0F / 155925.0F));
  p = fma(p, s, splat(62.0F / 2835.0F));
  p = fma(p, s, splat(-17.0F / 315.0F));
  p = fma(p, s, splat(2.0F / 15.0F));
  p = fma(p, s, splat(-1.0F / 3.0F));
  const VecF near = fma(x * s, p, x);
  const VecF signed_far = where_less(x, zero(), zero() - far, far);
  return where_less(magnitude, splat(0.5F), near, signed_far);
}

template <class T>
void tanh_forward(void* y, const void* x, std::int64_t elements) {
  map(static_cast<T*>(y), elements, [&](auto lanes, std::int64_t i) { return tanh(load_lanes(static_cast<const T*>(x) + i, lanes)); });
}

template <class T>
void tanh_backward(void* dx, const void* dy, const void* y_void, std::int64_t elements) {
  map(static_cast<T*>(dx), elements, [&](auto lanes, std::int64_t i) {
    const VecF y = load_lanes(static_cast<const T*>(y_void) + i, lanes);
    // (1 - y)(1 + y): 1 - y is exact near 1, where 1 - y^2 would lose all digits.
    return load_lanes(static_cast<const T*>(dy) + i, lanes) * ((splat(1.0F) - y) * (splat(1.0F) + y));
  });
}

template <class T>
void add(void* out, const void* in, std::int64_t elements) {
  T* const to = static_cast<T*>(out);
  map(to, elements,
      [&](auto lanes, std::int64_t i) { return load_lanes(to + i, lanes) + load_lanes(static_cast<const T*>(in) + i, lanes); });
}

template <class From, class To>
void cast(void* to, const void* from, std::int64_t elements) {
  map(static_cast<To*>(to), elements, [&](auto lanes, std::int64_t i) { return load_lanes(static_cast<const From*>(from) + i, lanes); });
}

void scaled_copy(float* y, const float* x, float scale, bool accumulate, std::int64_t elements) {
  map(y, elements, [&](auto lanes, std::int64_t i) {
    const VecF value = load_lanes(x + i, lanes) * splat(scale);
    return accumulate ? value + load_lanes(y + i, lanes) : value;
  });
}

}  // namespace
}  // namespace flashbert::cpu
