// The row kernels at the width of simd.h; included once by each row_kernels_<isa>.cpp. Everything is in an unnamed namespace.
#pragma once

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/simd.h"

namespace flashbert::cpu {
namespace {

using Half = std::uint16_t;  // the bits of a bf16

inline VecF load_as(const float* p) { return load(p); }
inline VecF load_as(const Half* p) { return load_bf16(p); }
inline void store_as(float* p, VecF x) { store(p, x); }
inline void store_as(Half* p, VecF x) { store_bf16(p, x); }

/// The last columns of a row, fewer than a vector: through a padded copy.
template <class T>
inline VecF load_part(const T* p, std::int64_t count) {
  alignas(64) T padded[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return load_as(padded);
}
template <class T>
inline void store_part(T* p, VecF x, std::int64_t count) {
  alignas(64) T padded[kLanes];
  store_as(padded, x);
  for (std::int64_t i = 0; i < count; ++i) p[i] = padded[i];
}
template <class T>
inline VecF load_columns(const T* p, std::int64_t left) {
  return left >= kLanes ? load_as(p) : load_part(p, left);
}
template <class T>
inline void store_columns(T* p, VecF x, std::int64_t left) {
  if (left >= kLanes) {
    store_as(p, x);
  } else {
    store_part(p, x, left);
  }
}

/// Keep bits of the kLanes columns from column c (a multiple of 8).
inline std::uint32_t keep_bits(const std::uint8_t* keep, std::int64_t c, std::int64_t columns) {
  std::uint32_t bits = keep[c / 8];
  if (kLanes == 16 && c + 8 < columns) bits |= static_cast<std::uint32_t>(keep[c / 8 + 1]) << 8;
  return bits;
}
inline VecF masked(VecF x, const std::uint8_t* keep, float scale, std::int64_t c, std::int64_t columns) {
  return keep == nullptr ? x : keep_lanes(x, keep_bits(keep, c, columns)) * splat(scale);
}

void dropout_row(const RowDropout& d, std::int64_t columns, std::uint8_t* keep) {
  const std::int64_t blocks = columns / 8;
  const VecI limit = splat_int(static_cast<std::int32_t>(d.threshold));
  for (std::int64_t block = 0; block < blocks; block += kLanes) {
    const VecI c3 = or_int(splat_int(static_cast<std::int32_t>(d.position << 16)),
                           add_int(lane_numbers(), splat_int(static_cast<std::int32_t>(block))));
    const PhiloxLanes random = philox(splat_int(static_cast<std::int32_t>(d.counter0)), splat_int(static_cast<std::int32_t>(d.counter1)),
                                      splat_int(static_cast<std::int32_t>(d.counter2)), c3, d.key0, d.key1);
    std::uint32_t lanes[8];
    for (int w = 0; w < 8; ++w) lanes[w] = at_least(w % 2 == 0 ? low_half(random.word[w / 2]) : high_half(random.word[w / 2]), limit);
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint32_t byte = 0;
      for (int w = 0; w < 8; ++w) byte |= ((lanes[w] >> lane) & 1U) << w;
      keep[block + lane] = static_cast<std::uint8_t>(byte);
    }
  }
}

template <class T>
void add_row(float* row, const void* x_void, const void* residual_void, const std::uint8_t* keep, float keep_scale, std::int64_t columns) {
  const T* const x = static_cast<const T*>(x_void);
  const T* const residual = static_cast<const T*>(residual_void);
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    VecF value = masked(load_columns(x + c, columns - c), keep, keep_scale, c, columns);
    if (residual != nullptr) value = value + load_columns(residual + c, columns - c);
    store_columns(row + c, value, columns - c);
  }
}

template <class T>
void embedding_row(float* row, const void* word, const void* position, const void* segment, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const std::int64_t left = columns - c;
    const VecF sum = load_columns(static_cast<const T*>(word) + c, left) + load_columns(static_cast<const T*>(position) + c, left);
    store_columns(row + c, sum + load_columns(static_cast<const T*>(segment) + c, left), left);
  }
}

/// Sum of f(c) over the columns: four running vectors, a fixed tree at the end. f must give 0 in lanes past the last column.
template <class Function>
inline float sum_columns(std::int64_t columns, const Function& f) {
  VecF sums[4] = {zero(), zero(), zero(), zero()};
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= columns; c += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) sums[i] = sums[i] + f(c + i * kLanes);
  }
  for (int i = 0; c < columns; c += kLanes, ++i) sums[i] = sums[i] + f(c);
  return sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class T>
void normalise_row(NormaliseRow& a) {
  const auto n = static_cast<float>(a.columns);
  a.mean = sum_columns(a.columns, [&](std::int64_t c) { return load_columns(a.row + c, a.columns - c); }) / n;
  const VecF mean = splat(a.mean);
  const float squares = sum_columns(a.columns, [&](std::int64_t c) {
    const std::int64_t left = a.columns - c;
    VecF centred = load_columns(a.row + c, left) - mean;
    if (left < kLanes) centred = keep_lanes(centred, (1U << left) - 1U);
    return centred * centred;
  });
  // In double: eps = 1e-12 and tiny variances must not be lost.
  a.rstd = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(squares) / static_cast<double>(n) + static_cast<double>(a.eps)));
  const VecF rstd = splat(a.rstd);
  for (std::int64_t c = 0; c < a.columns; c += kLanes) {
    const std::int64_t left = a.columns - c;
    const VecF value = load_columns(a.row + c, left);
    if (a.z != nullptr) store_columns(static_cast<T*>(a.z) + c, value, left);
    const VecF y = fma((value - mean) * rstd, load_columns(a.gamma + c, left), load_columns(a.beta + c, left));
    store_columns(static_cast<T*>(a.y) + c, masked(y, a.keep, a.keep_scale, c, a.columns), left);
  }
}

template <class T>
void norm_gradient_row(const NormGradientRow& a) {
  const T* const dy = static_cast<const T*>(a.dy);
  const T* const z = static_cast<const T*>(a.z);
  const VecF mean = splat(a.mean);
  const VecF rstd = splat(a.rstd);
  const auto normalised = [&](std::int64_t c) { return (load_columns(z + c, a.columns - c) - mean) * rstd; };
  VecF sum = zero();
  VecF product_sum = zero();
  for (std::int64_t c = 0; c < a.columns; c += kLanes) {
    const std::int64_t left = a.columns - c;
    const VecF gradient = masked(load_columns(dy + c, left), a.keep_of_output, a.keep_scale, c, a.columns);
    const VecF x_hat = normalised(c);
    store_columns(a.dgamma + c, fma(gradient, x_hat, load_columns(a.dgamma + c, left)), left);
    store_columns(a.dbeta + c, gradient + load_columns(a.dbeta + c, left), left);
    const VecF scaled = gradient * load_columns(a.gamma + c, left);  // 0 in lanes past the end
    store_columns(a.buffer + c, scaled, left);
    sum = sum + scaled;
    product_sum = fma(scaled, x_hat, product_sum);
  }
  const auto n = static_cast<float>(a.columns);
  const VecF mean_gradient = splat(sum_lanes(sum) / n);
  const VecF mean_product = splat(sum_lanes(product_sum) / n);
  for (std::int64_t c = 0; c < a.columns; c += kLanes) {
    const std::int64_t left = a.columns - c;
    const VecF centred = load_columns(a.buffer + c, left) - mean_gradient;
    const VecF dz = (centred - normalised(c) * mean_product) * rstd;
    store_columns(static_cast<T*>(a.dz) + c, dz, left);
    if (a.dx != nullptr) store_columns(static_cast<T*>(a.dx) + c, masked(dz, a.keep_of_input, a.keep_scale, c, a.columns), left);
  }
}

template <class T>
void sum_rows(float* out, const void* dz_void, std::int64_t row_stride, const std::int32_t* order, std::int64_t count,
              std::int64_t columns) {
  const T* const dz = static_cast<const T*>(dz_void);
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const std::int64_t left = columns - c;
    VecF total = load_columns(out + c, left);
    for (std::int64_t first = 0; first < count; first += kBlock) {
      const std::int64_t end = first + kBlock < count ? first + kBlock : count;
      VecF block = zero();
      for (std::int64_t k = first; k < end; ++k) block = block + load_columns(dz + order[k] * row_stride + c, left);
      total = total + block;
    }
    store_columns(out + c, total, left);
  }
}

/// s = sigmoid(2u), its complement, and d(2u)/dx for GELU's u = sqrt(2 / pi) (x + 0.044715 x^3). Beyond |x| = 20 both are saturated in f32.
struct GeluParts {
  VecF sigmoid, complement, slope;
};
inline GeluParts gelu_parts(VecF x) {
  const VecF clamped = max(min(x, splat(20.0F)), splat(-20.0F));
  const VecF square = clamped * clamped;
  const VecF twice = splat(2.0F * 0.7978845608028654F);
  const VecF argument = twice * clamped * fma(square, splat(0.044715F), splat(1.0F));
  const VecF tail = exp(zero() - abs(argument));
  const VecF larger = splat(1.0F) / (splat(1.0F) + tail);
  const VecF smaller = tail * larger;
  return {where_less(argument, zero(), smaller, larger), where_less(argument, zero(), larger, smaller),
          twice * fma(square, splat(3.0F * 0.044715F), splat(1.0F))};
}

/// Applies f to a flat range, vector by vector: out[i] = f(i, left).
template <class T, class Function>
inline void map(T* out, std::int64_t elements, const Function& f) {
  for (std::int64_t i = 0; i < elements; i += kLanes) store_columns(out + i, f(i, elements - i), elements - i);
}

template <class T>
void gelu_forward(void* y, const void* x_void, std::int64_t elements) {
  const T* const x = static_cast<const T*>(x_void);
  map(static_cast<T*>(y), elements, [&](std::int64_t i, std::int64_t left) {
    const VecF value = load_columns(x + i, left);
    return value * gelu_parts(value).sigmoid;
  });
}

template <class T>
void gelu_backward(void* dx, const void* dy_void, const void* x_void, std::int64_t elements) {
  const T* const dy = static_cast<const T*>(dy_void);
  const T* const x = static_cast<const T*>(x_void);
  map(static_cast<T*>(dx), elements, [&](std::int64_t i, std::int64_t left) {
    const VecF value = load_columns(x + i, left);
    const GeluParts parts = gelu_parts(value);
    const VecF bounded = max(min(value, splat(20.0F)), splat(-20.0F));
    const VecF slope = fma(bounded * parts.sigmoid * parts.complement, parts.slope, parts.sigmoid);
    return load_columns(dy + i, left) * slope;
  });
}

/// tanh: the odd series up to x^15 for |x| < 0.5 (error 1e-8), else (1 - t) / (1 + t) with t = exp(-2 |x|).
inline VecF tanh(VecF x) {
  const VecF magnitude = abs(x);
  const VecF t = exp(magnitude * splat(-2.0F));
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
  map(static_cast<T*>(y), elements,
      [&](std::int64_t i, std::int64_t left) { return tanh(load_columns(static_cast<const T*>(x) + i, left)); });
}

template <class T>
void tanh_backward(void* dx, const void* dy, const void* y_void, std::int64_t elements) {
  map(static_cast<T*>(dx), elements, [&](std::int64_t i, std::int64_t left) {
    const VecF y = load_columns(static_cast<const T*>(y_void) + i, left);
    return load_columns(static_cast<const T*>(dy) + i, left) * (splat(1.0F) - y * y);
  });
}

template <class T>
void add(void* out, const void* in, std::int64_t elements) {
  T* const to = static_cast<T*>(out);
  map(to, elements,
      [&](std::int64_t i, std::int64_t left) { return load_columns(to + i, left) + load_columns(static_cast<const T*>(in) + i, left); });
}

template <class From, class To>
void cast(void* to, const void* from, std::int64_t elements) {
  map(static_cast<To*>(to), elements,
      [&](std::int64_t i, std::int64_t left) { return load_columns(static_cast<const From*>(from) + i, left); });
}

void scaled_copy(float* y, const float* x, float scale, bool accumulate, std::int64_t elements) {
  map(y, elements, [&](std::int64_t i, std::int64_t left) {
    const VecF value = load_columns(x + i, left) * splat(scale);
    return accumulate ? value + load_columns(y + i, left) : value;
  });
}

inline VecF load_classes(const float* p, std::int64_t left, VecF padding) {
  if (left >= kLanes) return load_as(p);
  alignas(64) float padded[kLanes];
  store(padded, padding);
  for (std::int64_t i = 0; i < left; ++i) padded[i] = p[i];
  return load(padded);
}
inline VecF load_classes(const Half* p, std::int64_t left, VecF padding) {
  if (left >= kLanes) return load_as(p);
  alignas(64) float padded[kLanes];
  alignas(64) float values[kLanes];
  store(padded, padding);
  store(values, load_part(p, left));
  for (std::int64_t i = 0; i < left; ++i) padded[i] = values[i];
  return load(padded);
}

template <class T>
std::int64_t first_index_of(const T* x, std::int64_t classes, float wanted) {
  for (std::int64_t c = 0; c < classes; c += kLanes) {
    alignas(64) float values[kLanes];
    const VecF loaded = load_classes(x + c, classes - c, splat(-__builtin_inff()));
    if (max_lanes(loaded) != wanted) continue;
    store(values, loaded);
    for (std::int64_t i = 0; i < kLanes; ++i) {
      if (values[i] == wanted) return c + i;
    }
  }
  return -1;
}

template <class T>
void cross_entropy_row(CrossEntropyRow& a) {
  T* const x = static_cast<T*>(a.logits);
  const VecF lowest = splat(-__builtin_inff());
  VecF largest = lowest;
  for (std::int64_t c = 0; c < a.classes; c += kLanes) largest = max(load_classes(x + c, a.classes - c, lowest), largest);
  const float maximum = max_lanes(largest);
  // Eight vectors are added in f32, then in f64: the sum of 30,522 terms keeps f32 accuracy.
  VecD low = zero_double();
  VecD high = zero_double();
  for (std::int64_t c = 0; c < a.classes; c += 8 * kLanes) {
    VecF sum = zero();
    for (std::int64_t i = c; i < c + 8 * kLanes && i < a.classes; i += kLanes) {
      sum = sum + exp(load_classes(x + i, a.classes - i, lowest) - splat(maximum));
    }
    low = low + low_double(sum);
    high = high + high_double(sum);
  }
  const double total = sum_double(low) + sum_double(high);
  alignas(64) float label_logit[kLanes];
  store(label_logit, load_part(x + a.label, 1));
  // -(x - max) first: both are f32 and the difference of close values is exact.
  a.nll = __builtin_log(total) - (static_cast<double>(label_logit[0]) - static_cast<double>(maximum));
  a.correct = label_logit[0] == maximum && first_index_of(x, a.classes, maximum) == a.label;
  if (!a.gradient) return;
  const auto factor = static_cast<float>(static_cast<double>(a.scale) / total);
  const VecF shift = splat(maximum);
  for (std::int64_t c = 0; c < a.columns; c += kLanes) {
    const std::int64_t classes_left = a.classes - c;
    const VecF gradient = classes_left > 0 ? exp(load_classes(x + c, classes_left, lowest) - shift) * splat(factor) : zero();
    if (a.label >= c && a.label < c + kLanes) {
      alignas(64) float values[kLanes];
      store(values, gradient);
      values[a.label - c] -= a.scale;
      store_columns(x + c, load(values), a.columns - c);
    } else {
      store_columns(x + c, gradient, a.columns - c);
    }
  }
}

double sum_of_squares(const float* x, std::int64_t elements) {
  VecD sums[4] = {zero_double(), zero_double(), zero_double(), zero_double()};
  std::int64_t i = 0;
  const auto add_vector = [&](VecF value, int k) {
    const VecD low = low_double(value);
    const VecD high = high_double(value);
    sums[k] = fma_double(low, low, sums[k]);
    sums[k + 1] = fma_double(high, high, sums[k + 1]);
  };
  for (; i + 2 * kLanes <= elements; i += 2 * kLanes) {
    add_vector(load(x + i), 0);
    add_vector(load(x + i + kLanes), 2);
  }
  for (; i < elements; i += kLanes) add_vector(load_columns(x + i, elements - i), 0);
  return sum_double((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// u = (m / c1) / (sqrt(v / c2) + eps) + wd * w
inline VecF lamb_direction(const LambScalars& s, VecF m, VecF v, VecF w) {
  const VecF direction = (m / splat(s.bias_correction1)) / (sqrt(v / splat(s.bias_correction2)) + splat(s.epsilon));
  return fma(w, splat(s.decay), direction);
}

void lamb_moments(LambChunk& a) {
  const LambScalars& s = a.scalars;
  VecD sums[4] = {zero_double(), zero_double(), zero_double(), zero_double()};
  for (std::int64_t i = 0; i < a.elements; i += kLanes) {
    const std::int64_t left = a.elements - i;
    const VecF g = load_columns(a.gradient + i, left) * splat(s.clip_scale);
    const VecF w = load_columns(a.weight + i, left);
    const VecF m = fma(splat(s.beta1), load_columns(a.m + i, left), splat(1.0F - s.beta1) * g);
    const VecF v = fma(splat(s.beta2), load_columns(a.v + i, left), splat(1.0F - s.beta2) * (g * g));
    store_columns(a.m + i, m, left);
    store_columns(a.v + i, v, left);
    VecF u = lamb_direction(s, m, v, w);
    if (left < kLanes) u = keep_lanes(u, (1U << left) - 1U);  // 0 / 0 past the end where eps is 0
    const VecD w_low = low_double(w);
    const VecD w_high = high_double(w);
    const VecD u_low = low_double(u);
    const VecD u_high = high_double(u);
    sums[0] = fma_double(w_low, w_low, sums[0]);
    sums[1] = fma_double(w_high, w_high, sums[1]);
    sums[2] = fma_double(u_low, u_low, sums[2]);
    sums[3] = fma_double(u_high, u_high, sums[3]);
  }
  a.weight_squares = sum_double(sums[0] + sums[1]);
  a.update_squares = sum_double(sums[2] + sums[3]);
}

void lamb_apply(LambChunk& a) {
  Half* const compute = static_cast<Half*>(a.compute);
  for (std::int64_t i = 0; i < a.elements; i += kLanes) {
    const std::int64_t left = a.elements - i;
    const VecF w = load_columns(a.weight + i, left);
    const VecF u = lamb_direction(a.scalars, load_columns(a.m + i, left), load_columns(a.v + i, left), w);
    const VecF next = fma(u, splat(-a.step), w);
    store_columns(a.weight + i, next, left);
    if (compute != nullptr) store_columns(compute + i, next, left);
  }
}

constexpr RowKernels kTable = {
    .dropout_row = dropout_row,
    .add_row = {add_row<float>, add_row<Half>},
    .embedding_row = {embedding_row<float>, embedding_row<Half>},
    .normalise_row = {normalise_row<float>, normalise_row<Half>},
    .norm_gradient_row = {norm_gradient_row<float>, norm_gradient_row<Half>},
    .sum_rows = {sum_rows<float>, sum_rows<Half>},
    .gelu_forward = {gelu_forward<float>, gelu_forward<Half>},
    .gelu_backward = {gelu_backward<float>, gelu_backward<Half>},
    .tanh_forward = {tanh_forward<float>, tanh_forward<Half>},
    .tanh_backward = {tanh_backward<float>, tanh_backward<Half>},
    .add = {add<float>, add<Half>},
    .cast = {{cast<float, float>, cast<float, Half>}, {cast<Half, float>, cast<Half, Half>}},
    .scaled_copy = scaled_copy,
    .cross_entropy_row = {cross_entropy_row<float>, cross_entropy_row<Half>},
    .sum_of_squares = sum_of_squares,
    .lamb_moments = lamb_moments,
    .lamb_apply = lamb_apply,
};

}  // namespace
}  // namespace flashbert::cpu
