// Vectors of f32 at the width of the instruction set that the including source is compiled for (AVX2: 8 lanes, AVX-512: 16). Everything is
// in an unnamed namespace on purpose: these sources must leave no function behind that the linker could share with code for lesser
// processors. For the same reason they include no header with inline functions of its own (tests/layers).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/philox_constants.h"

/// The name of what a *_per_level.cpp defines, at the level that it is compiled for: kAttention becomes kAttentionAvx2.
#define FLASHBERT_OF_LEVEL(name) FLASHBERT_JOIN(name, FLASHBERT_LEVEL)
#define FLASHBERT_JOIN(name, level) FLASHBERT_JOIN_EXPANDED(name, level)
#define FLASHBERT_JOIN_EXPANDED(name, level) name##level

namespace {

using Half = std::uint16_t;  // the bits of a bf16

#if defined(__AVX512F__)

constexpr int kLanes = 16;
using VecF = __m512;
using VecI = __m512i;

inline VecF splat(float x) { return _mm512_set1_ps(x); }
inline VecI splat_int(std::int32_t x) { return _mm512_set1_epi32(x); }
inline VecF zero() { return _mm512_setzero_ps(); }
inline VecF load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, VecF x) { _mm512_storeu_ps(p, x); }
inline VecF load_bf16(const std::uint16_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}
/// Round to nearest, ties to even; NaN stays NaN. Integer arithmetic: the processor's own conversion flushes subnormals, and one
/// rule on all instruction sets keeps results comparable.
inline __m256i to_bf16_bits(VecF x) {
  const VecI bits = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, splat_int(0x10000));
  VecI rounded = _mm512_add_epi32(bits, splat_int(0x7fff));
  rounded = _mm512_mask_add_epi32(rounded, odd, bits, splat_int(0x8000));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  rounded = _mm512_mask_or_epi32(rounded, nan, bits, splat_int(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
inline void store_bf16(std::uint16_t* p, VecF x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16_bits(x)); }
/// The first `count` lanes only, 0 < count < kLanes; the other lanes of a load are 0.
inline __mmask16 first_lanes(std::int64_t count) { return static_cast<__mmask16>((1U << count) - 1U); }
inline VecF load_part(const float* p, std::int64_t count) { return _mm512_maskz_loadu_ps(first_lanes(count), p); }
inline VecF load_part(const std::uint16_t* p, std::int64_t count) {
  const __m256i words = _mm256_maskz_loadu_epi16(first_lanes(count), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}
inline void store_part(float* p, VecF x, std::int64_t count) { _mm512_mask_storeu_ps(p, first_lanes(count), x); }
inline void store_part(std::uint16_t* p, VecF x, std::int64_t count) { _mm256_mask_storeu_epi16(p, first_lanes(count), to_bf16_bits(x)); }
inline VecF fma(VecF a, VecF b, VecF c) { return _mm512_fmadd_ps(a, b, c); }
inline VecF max(VecF a, VecF b) { return _mm512_max_ps(a, b); }
inline VecF min(VecF a, VecF b) { return _mm512_min_ps(a, b); }
inline VecF sqrt(VecF a) { return _mm512_sqrt_ps(a); }
inline VecF round_nearest(VecF a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline VecF abs(VecF a) { return _mm512_abs_ps(a); }
/// a < b ? yes : no, lane by lane.
inline VecF where_less(VecF a, VecF b, VecF yes, VecF no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes); }
/// Lane i of x where bit i is set, else 0.
inline VecF keep_lanes(VecF x, std::uint32_t bits) { return _mm512_maskz_mov_ps(static_cast<__mmask16>(bits), x); }
/// 2^n for n in the low bits of f, -126 <= n <= 127; the bits above the exponent's are shifted out.
inline VecF power_of_two_bits(VecF f) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(f), 23), splat_int(0x3f800000)));
}
inline float sum_lanes(VecF x) {
  // A fixed tree: halves, quarters, pairs.
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  const __m128 quarters = _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
  const __m128 pairs = _mm_add_ps(quarters, _mm_movehl_ps(quarters, quarters));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}
inline float max_lanes(VecF x) { return _mm512_reduce_max_ps(x); }
/// The lower and upper half of the lanes as doubles.
inline __m512d low_double(VecF x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
inline __m512d high_double(VecF x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
using VecD = __m512d;
inline VecD zero_double() { return _mm512_setzero_pd(); }
inline VecD fma_double(VecD a, VecD b, VecD c) { return _mm512_fmadd_pd(a, b, c); }
inline double sum_double(VecD x) {
  alignas(64) double lanes[8];
  _mm512_store_pd(lanes, x);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// High and low words of the products of each lane with a constant.
struct WideProduct {
  VecI high, low;
};
inline WideProduct multiply_wide(VecI a, VecI constant) {
  const VecI even = _mm512_mul_epu32(a, constant);
  const VecI odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), constant);
  return {_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd), _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32))};
}
inline VecI xor3(VecI a, VecI b, VecI c) { return _mm512_ternarylogic_epi32(a, b, c, 0x96); }
inline VecI add_int(VecI a, VecI b) { return _mm512_add_epi32(a, b); }
inline VecI or_int(VecI a, VecI b) { return _mm512_or_si512(a, b); }
inline VecI low_half(VecI a) { return _mm512_and_si512(a, splat_int(0xffff)); }
inline VecI high_half(VecI a) { return _mm512_srli_epi32(a, 16); }
/// `bits` with `bit` set in the lanes where a is at least the limit.
inline VecI set_where_at_least(VecI bits, std::int32_t bit, VecI a, VecI limit) {
  return _mm512_mask_or_epi32(bits, _mm512_cmpge_epu32_mask(a, limit), bits, splat_int(bit));
}
/// The low byte of each lane.
inline void store_bytes(std::uint8_t* p, VecI x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x)); }
inline VecI lane_numbers() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

#else

constexpr int kLanes = 8;
using VecF = __m256;
using VecI = __m256i;

inline VecF splat(float x) { return _mm256_set1_ps(x); }
inline VecI splat_int(std::int32_t x) { return _mm256_set1_epi32(x); }
inline VecF zero() { return _mm256_setzero_ps(); }
inline VecF load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, VecF x) { _mm256_storeu_ps(p, x); }
inline VecF load_bf16(const std::uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}
inline void store_bf16(std::uint16_t* p, VecF x) {
  const VecI bits = _mm256_castps_si256(x);
  const VecI odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), splat_int(1));
  const VecI rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, splat_int(0x7fff)), odd), 16);
  const VecI quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), splat_int(0x40));
  const VecI nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const VecI words = _mm256_blendv_epi8(rounded, quiet, nan);
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}
/// Through a padded copy.
inline VecF load_part(const float* p, std::int64_t count) {
  alignas(32) float padded[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return load(padded);
}
inline VecF load_part(const std::uint16_t* p, std::int64_t count) {
  alignas(16) std::uint16_t padded[kLanes] = {};
  for (std::int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return load_bf16(padded);
}
inline void store_part(float* p, VecF x, std::int64_t count) {
  alignas(32) float padded[kLanes];
  store(padded, x);
  for (std::int64_t i = 0; i < count; ++i) p[i] = padded[i];
}
inline void store_part(std::uint16_t* p, VecF x, std::int64_t count) {
  alignas(16) std::uint16_t padded[kLanes];
  store_bf16(padded, x);
  for (std::int64_t i = 0; i < count; ++i) p[i] = padded[i];
}
inline VecF fma(VecF a, VecF b, VecF c) { return _mm256_fmadd_ps(a, b, c); }
inline VecF max(VecF a, VecF b) { return _mm256_max_ps(a, b); }
inline VecF min(VecF a, VecF b) { return _mm256_min_ps(a, b); }
inline VecF sqrt(VecF a) { return _mm256_sqrt_ps(a); }
inline VecF round_nearest(VecF a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline VecF abs(VecF a) { return _mm256_andnot_ps(splat(-0.0F), a); }
inline VecF where_less(VecF a, VecF b, VecF yes, VecF no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
inline VecF keep_lanes(VecF x, std::uint32_t bits) {
  const VecI select = _mm256_and_si256(splat_int(static_cast<std::int32_t>(bits)), _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128));
  return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(select, _mm256_setzero_si256())), x);
}
inline VecF power_of_two_bits(VecF f) {
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(_mm256_castps_si256(f), 23), splat_int(0x3f800000)));
}
inline float sum_lanes(VecF x) {
  const __m128 quarters = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 pairs = _mm_add_ps(quarters, _mm_movehl_ps(quarters, quarters));
  return _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}
inline float max_lanes(VecF x) {
  const __m128 quarters = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 pairs = _mm_max_ps(quarters, _mm_movehl_ps(quarters, quarters));
  return _mm_cvtss_f32(_mm_max_ss(pairs, _mm_shuffle_ps(pairs, pairs, 1)));
}
using VecD = __m256d;
inline VecD low_double(VecF x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
inline VecD high_double(VecF x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
inline VecD zero_double() { return _mm256_setzero_pd(); }
inline VecD fma_double(VecD a, VecD b, VecD c) { return _mm256_fmadd_pd(a, b, c); }
inline double sum_double(VecD x) {
  alignas(32) double lanes[4];
  _mm256_store_pd(lanes, x);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

struct WideProduct {
  VecI high, low;
};
inline WideProduct multiply_wide(VecI a, VecI constant) {
  const VecI even = _mm256_mul_epu32(a, constant);
  const VecI odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), constant);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa), _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)};
}
inline VecI xor3(VecI a, VecI b, VecI c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
inline VecI add_int(VecI a, VecI b) { return _mm256_add_epi32(a, b); }
inline VecI or_int(VecI a, VecI b) { return _mm256_or_si256(a, b); }
inline VecI low_half(VecI a) { return _mm256_and_si256(a, splat_int(0xffff)); }
inline VecI high_half(VecI a) { return _mm256_srli_epi32(a, 16); }
inline VecI set_where_at_least(VecI bits, std::int32_t bit, VecI a, VecI limit) {
  return _mm256_or_si256(bits, _mm256_andnot_si256(_mm256_cmpgt_epi32(limit, a), splat_int(bit)));
}
inline void store_bytes(std::uint8_t* p, VecI x) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
}
inline VecI lane_numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }

#endif

/// For GELU, tanh and losses, whose arguments are natural exponents of any size; attention has a cheaper power of two of its own
/// (attention/math_impl.h). exp(x) = p * 2^n: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, n by adding 1.5 * 2^23, which leaves
/// n in the low bits of `shifted`), p = 1 + r + r^2 q(r) with q of degree 4 through the Chebyshev nodes (error 1.1e-8). NaN in x makes p
/// NaN.
struct ExpParts {
  VecF p, n, shifted;
};
inline ExpParts exp_parts(VecF x) {
  const VecF magic = splat(12582912.0F);
  const VecF shifted = fma(x, splat(1.44269504088896341F), magic);
  const VecF n = shifted - magic;
  VecF r = fma(n, splat(-0.693145751953125F), x);
  r = fma(n, splat(-1.42860682030941723212e-6F), r);
  VecF q = splat(0x1.6d113cp-10F);
  q = fma(q, r, splat(0x1.120ba2p-7F));
  q = fma(q, r, splat(0x1.55551ap-5F));
  q = fma(q, r, splat(0x1.5554dcp-3F));
  q = fma(q, r, splat(0.5F));
  return {fma(q, r * r, r) + splat(1.0F), n, shifted};
}
constexpr float kLowestExponent = -87.33654F;  // exp of less is below 2^-126

/// exp(x) for |x| <= 87.3 or NaN. Relative error below 2^-22.5.
inline VecF exp_bounded(VecF x) {
  const ExpParts parts = exp_parts(x);
  return parts.p * power_of_two_bits(parts.shifted);
}
/// exp(x) for x <= 0 or NaN; results below 2^-126 become 0.
inline VecF exp_nonpositive(VecF x) {
  // x comes second in max and min: where an operand is NaN, the processor gives the second.
  const VecF result = exp_bounded(max(splat(kLowestExponent), x));
  return where_less(x, splat(kLowestExponent), zero(), result);
}
/// Philox4x32-10 on kLanes counters at once (core/philox.h is the scalar definition).
struct PhiloxLanes {
  VecI word[4];
};
inline PhiloxLanes philox(VecI c0, VecI c1, VecI c2, VecI c3, std::uint32_t key0, std::uint32_t key1) {
  const VecI multiplier0 = splat_int(static_cast<std::int32_t>(flashbert::kPhiloxMultiplier0));
  const VecI multiplier1 = splat_int(static_cast<std::int32_t>(flashbert::kPhiloxMultiplier1));
  for (int round = 0; round < flashbert::kPhiloxRounds; ++round) {
    const WideProduct product0 = multiply_wide(c0, multiplier0);
    const WideProduct product1 = multiply_wide(c2, multiplier1);
    const VecI next0 = xor3(product1.high, c1, splat_int(static_cast<std::int32_t>(key0)));
    const VecI next2 = xor3(product0.high, c3, splat_int(static_cast<std::int32_t>(key1)));
    c0 = next0;
    c1 = product1.low;
    c2 = next2;
    c3 = product0.low;
    key0 += flashbert::kPhiloxWeyl0;
    key1 += flashbert::kPhiloxWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace
