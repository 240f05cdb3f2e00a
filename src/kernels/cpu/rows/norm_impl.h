// Row kernels of dropout, layer norm and embeddings.
#pragma once

#include "kernels/cpu/rows/kernels.h"
#include "kernels/cpu/rows/vectors_impl.h"

namespace flashbert::cpu {
namespace {

void dropout_row(const RowDropout& d, std::int64_t columns, std::uint8_t* keep) {
  const std::int64_t blocks = columns / 8;
  const VecI limit = splat_int(static_cast<std::int32_t>(d.threshold));
  for (std::int64_t block = 0; block < blocks; block += kLanes) {
    const VecI c3 = or_int(splat_int(static_cast<std::int32_t>(d.position << 16)),
                           add_int(lane_numbers(), splat_int(static_cast<std::int32_t>(block))));
    const PhiloxLanes random = philox(splat_int(static_cast<std::int32_t>(d.counter0)), splat_int(static_cast<std::int32_t>(d.counter1)),
                                      splat_int(static_cast<std::int32_t>(d.counter2)), c3, d.key0, d.key1);
    VecI bits = splat_int(0);
    for (int j = 0; j < 4; ++j) {
      bits = set_where_at_least(bits, 1 << (2 * j), low_half(random.word[j]), limit);
      bits = set_where_at_least(bits, 2 << (2 * j), high_half(random.word[j]), limit);
    }
    store_bytes(keep + block, bits);
  }
}

template <class T>
float add_row(float* row, const void* x_void, const void* residual_void, const std::uint8_t* keep, float keep_scale, std::int64_t columns) {
  const T* const x = static_cast<const T*>(x_void);
  const T* const residual = static_cast<const T*>(residual_void);
  return sum_columns(columns, [&](auto lanes, std::int64_t c) {
    VecF value = masked(load_lanes(x + c, lanes), keep, keep_scale, c, lanes);
    if (residual != nullptr) value = value + load_lanes(residual + c, lanes);
    store_lanes(row + c, value, lanes);
    return value;
  });
}

template <class T>
float embedding_row(float* row, const void* word, const void* position, const void* segment, std::int64_t columns) {
  return sum_columns(columns, [&](auto lanes, std::int64_t c) {
    VecF value = load_lanes(static_cast<const T*>(word) + c, lanes) + load_lanes(static_cast<const T*>(position) + c, lanes);
    value = value + load_lanes(static_cast<const T*>(segment) + c, lanes);
    store_lanes(row + c, value, lanes);
    return value;
  });
}

template <class T>
void normalise_row(NormaliseRow& a) {
  const auto n = static_cast<float>(a.columns);
  const float rough_mean = a.sum / n;
  // The sum was rounded at the size of the values, which may be far above their spread: the sum of the centred values tells its error.
  const float shift =
      sum_columns(a.columns,
                  [&](auto lanes, std::int64_t c) { return zero_rest(load_lanes(a.row + c, lanes) - splat(rough_mean), lanes); }) /
      n;
  const auto centred = [&](auto lanes, std::int64_t c) { return (load_lanes(a.row + c, lanes) - splat(rough_mean)) - splat(shift); };
  const float squares = sum_columns(a.columns, [&](auto lanes, std::int64_t c) {
    const VecF value = zero_rest(centred(lanes, c), lanes);
    return value * value;
  });
  a.mean = rough_mean + shift;
  // In double: eps = 1e-12 and tiny variances must not be lost.
  a.rstd = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(squares) / static_cast<double>(n) + static_cast<double>(a.eps)));
  for_columns(a.columns, [&](auto lanes, std::int64_t c) {
    if (a.z != nullptr) store_lanes(static_cast<T*>(a.z) + c, load_lanes(a.row + c, lanes), lanes);
    const VecF y = fma(centred(lanes, c) * splat(a.rstd), load_lanes(a.gamma + c, lanes), load_lanes(a.beta + c, lanes));
    store_lanes(static_cast<T*>(a.y) + c, masked(y, a.keep, a.keep_scale, c, lanes), lanes);
  });
}

/// kRows rows at once: the parameter gradients of a column are loaded and stored once for all of them.
template <class T, int kRows>
void norm_gradient_rows(const NormGradientBlock& a, std::int64_t first_row) {
  const T* dy[kRows];
  const T* z[kRows];
  const std::uint8_t* keep_of_output[kRows];
  const std::uint8_t* keep_of_input[kRows];
  VecF sum[kRows];
  VecF product_sum[kRows];
  for (int i = 0; i < kRows; ++i) {
    const std::int64_t row = first_row + i;
    dy[i] = static_cast<const T*>(a.dy) + row * a.dy_stride;
    z[i] = static_cast<const T*>(a.z) + row * a.z_stride;
    keep_of_output[i] = a.keep_of_output == nullptr ? nullptr : a.keep_of_output + row * a.keep_stride;
    keep_of_input[i] = a.keep_of_input == nullptr ? nullptr : a.keep_of_input + row * a.keep_stride;
    sum[i] = zero();
    product_sum[i] = zero();
  }
  const auto gradient = [&](int i, auto lanes, std::int64_t c) {
    return masked(load_lanes(dy[i] + c, lanes), keep_of_output[i], a.keep_scale, c, lanes);
  };
  const auto normalised = [&](int i, auto lanes, std::int64_t c) {
    return (load_lanes(z[i] + c, lanes) - splat(a.mean[first_row + i])) * splat(a.rstd[first_row + i]);
  };
  for_columns(a.columns, [&](auto lanes, std::int64_t c) {
    const VecF gamma = load_lanes(a.gamma + c, lanes);
    for (int i = 0; i < kRows; ++i) {
      const VecF scaled = gradient(i, lanes, c) * gamma;  // 0 in lanes past the end
      sum[i] = sum[i] + scaled;
      product_sum[i] = fma(scaled, normalised(i, lanes, c), product_sum[i]);
    }
  });
  const auto n = static_cast<float>(a.columns);
  VecF mean_gradient[kRows];
  VecF mean_product[kRows];
  for (int i = 0; i < kRows; ++i) {
    mean_gradient[i] = splat(sum_lanes(sum[i]) / n);
    mean_product[i] = splat(sum_lanes(product_sum[i]) / n);
  }
  for_columns(a.columns, [&](auto lanes, std::int64_t c) {
    const VecF gamma = load_lanes(a.gamma + c, lanes);
    VecF dgamma = load_lanes(a.dgamma + c, lanes);
    VecF dbeta = load_lanes(a.dbeta + c, lanes);
    for (int i = 0; i < kRows; ++i) {
      const VecF dy_lanes = gradient(i, lanes, c);
      const VecF x_hat = normalised(i, lanes, c);
      dgamma = fma(dy_lanes, x_hat, dgamma);
      dbeta = dbeta + dy_lanes;
      const VecF centred = fma(dy_lanes, gamma, zero() - mean_gradient[i]);
      const VecF dz = fma(zero() - x_hat, mean_product[i], centred) * splat(a.rstd[first_row + i]);
      store_lanes(static_cast<T*>(a.dz) + (first_row + i) * a.dz_stride + c, dz, lanes);
      if (a.dx == nullptr) continue;
      store_lanes(static_cast<T*>(a.dx) + (first_row + i) * a.dx_stride + c, masked(dz, keep_of_input[i], a.keep_scale, c, lanes), lanes);
    }
    store_lanes(a.dgamma + c, dgamma, lanes);
    store_lanes(a.dbeta + c, dbeta, lanes);
  });
}

template <class T>
void norm_gradient_block(const NormGradientBlock& a) {
  std::int64_t row = 0;
  for (; row + 4 <= a.rows; row += 4) norm_gradient_rows<T, 4>(a, row);
  for (; row < a.rows; ++row) norm_gradient_rows<T, 1>(a, row);
}

/// Adds kVectors vectors of the rows' columns, from column c, to out: sums of blocks of 64 rows, added in order.
template <class T, int kVectors, class Lanes>
void sum_row_vectors(const SumRows& a, std::int64_t c, Lanes lanes) {
  constexpr std::int64_t kBlock = 64;
  VecF total[kVectors];
  for (int i = 0; i < kVectors; ++i) total[i] = load_lanes(a.out + c + i * kLanes, lanes);
  for (std::int64_t first = 0; first < a.count; first += kBlock) {
    const std::int64_t end = first + kBlock < a.count ? first + kBlock : a.count;
    VecF block[kVectors];
    for (int i = 0; i < kVectors; ++i) block[i] = zero();
    for (std::int64_t k = first; k < end; ++k) {
      const T* const row = static_cast<const T*>(a.dz) + a.order[k] * a.row_stride + c;
      for (int i = 0; i < kVectors; ++i) block[i] = block[i] + load_lanes(row + i * kLanes, lanes);
    }
    for (int i = 0; i < kVectors; ++i) total[i] = total[i] + block[i];
  }
  for (int i = 0; i < kVectors; ++i) store_lanes(a.out + c + i * kLanes, total[i], lanes);
}

template <class T>
void sum_rows(const SumRows& a) {
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= a.columns; c += 4 * kLanes) sum_row_vectors<T, 4>(a, c, Whole{});
  for (; c + kLanes <= a.columns; c += kLanes) sum_row_vectors<T, 1>(a, c, Whole{});
  if (c < a.columns) sum_row_vectors<T, 1>(a, c, Part{a.columns - c});
}

}  // namespace
}  // namespace flashbert::cpu
