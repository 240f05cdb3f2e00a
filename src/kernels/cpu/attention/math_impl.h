// Exponential and logarithm of the attention kernels at the width of simd.h; everything is in an unnamed namespace.
#pragma once

#include "kernels/cpu/simd/simd.h"

namespace flashbert::cpu {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr float kLn2 = 0.693147180559945F;
constexpr float kLowestPower = -125.0F;  // 2^x below this is taken as 2^-125: nothing beside the 1 that every row of a softmax holds

#if defined(__AVX512F__)
/// p 2^n for integral n.
inline VecF scale_by_power(VecF p, VecF n) { return _mm512_scalef_ps(p, n); }
/// x = m 2^e with m in [1, 2), x positive and normal.
inline VecF exponent_of(VecF x) { return _mm512_getexp_ps(x); }
inline VecF mantissa_of(VecF x) { return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src); }
#else
/// p 2^n for integral n >= kLowestPower and p in [2^-0.5, 2^0.5]: an addition to the exponent's bits.
inline VecF scale_by_power(VecF p, VecF n) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}
inline VecF exponent_of(VecF x) {
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(x), 23), splat_int(127)));
}
inline VecF mantissa_of(VecF x) {
  const VecI bits = _mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(x), splat_int(0x7fffff)), splat_int(0x3f800000));
  return _mm256_castsi256_ps(bits) + (x - x);  // NaN stays NaN
}
#endif

/// Beside simd.h's exp, because a softmax can work in powers of two: scale / ln 2 goes into the one product and sum that shift the scores,
/// the reduction needs no ln 2 in two parts, and what is tiny need not become 0.
/// 2^x for x up to a little above 0: x = n + f with |f| <= 1/2, 2^f by the polynomial of degree 5 through the six Chebyshev nodes
/// (relative error below 2^-22, f32 arithmetic included). NaN stays NaN.
inline VecF exp2_bounded(VecF x) {
  x = max(splat(kLowestPower), x);  // where an operand is NaN, the processor gives the second
  const VecF n = round_nearest(x);
  const VecF f = x - n;
  VecF p = splat(0x1.5f089p-10F);
  p = fma(p, f, splat(0x1.3d107p-7F));
  p = fma(p, f, splat(0x1.c6af6cp-5F));
  p = fma(p, f, splat(0x1.ebf906p-3F));
  p = fma(p, f, splat(0x1.62e43p-1F));
  p = fma(p, f, splat(0x1.000002p+0F));
  return scale_by_power(p, n);
}

/// Natural logarithm of positive normal x: log(m 2^e) = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), by the series of atanh; |s| <= 1/3
/// leaves an error of 2 s^15 / 15 < 1e-8.
inline VecF log_positive(VecF x) {
  const VecF m = mantissa_of(x);
  const VecF s = (m - splat(1.0F)) / (m + splat(1.0F));
  const VecF square = s * s;
  VecF series = splat(1.0F / 13.0F);
  series = fma(series, square, splat(1.0F / 11.0F));
  series = fma(series, square, splat(1.0F / 9.0F));
  series = fma(series, square, splat(1.0F / 7.0F));
  series = fma(series, square, splat(1.0F / 5.0F));
  series = fma(series, square, splat(1.0F / 3.0F));
  series = fma(series, square, splat(1.0F));
  return fma(exponent_of(x), splat(kLn2), (s + s) * series);
}

}  // namespace
}  // namespace flashbert::cpu
