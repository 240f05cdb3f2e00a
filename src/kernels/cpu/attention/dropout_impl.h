// Keep bits of attention at the width of simd.h; everything is in an unnamed namespace. kernels/formulas.h is the definition: a 32-column
// block of a row takes four calls of Philox, call t deciding columns {2t, 2t + 1} + 8j by output word j.
#pragma once

#include "core/philox_constants.h"
#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/simd/simd.h"

namespace flashbert::cpu {
namespace {

constexpr int kBlocksAtOnce = kLanes / 4;  // 32-column blocks whose calls fill one vector

/// Philox state of kLanes calls: even calls and odd calls as 64-bit lanes, of which only the low halves count. Products of 32-bit
/// numbers come as 64-bit lanes, so this form needs no shuffling between rounds.
struct CallPair {
  VecI even, odd;
};

#if defined(__AVX512F__)
inline VecI multiply_low(VecI a, VecI b) { return _mm512_mul_epu32(a, b); }
inline VecI upper_half(VecI a) { return _mm512_srli_epi64(a, 32); }
/// 32-bit lanes from the low halves: even, odd, even, odd, ...
inline VecI interleave(const CallPair& x) { return _mm512_mask_shuffle_epi32(x.even, 0xaaaa, x.odd, static_cast<_MM_PERM_ENUM>(0xa0)); }
/// Bit i is set where the 16-bit lane i of a is at least the limit (unsigned).
inline std::uint32_t halves_at_least(VecI a, VecI limit) { return _mm512_cmpge_epu16_mask(a, limit); }
inline VecI splat_half(std::uint32_t x) { return _mm512_set1_epi16(static_cast<std::int16_t>(x)); }
/// Lane i: word i / 4 of the kBlocksAtOnce words.
inline VecI each_four_times(const std::uint32_t* words) {
  const VecI index = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_epi32(index, _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words))));
}
inline void store_block_words(std::uint32_t* p, __m128i words) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words); }
inline VecI call_offsets() { return _mm512_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3); }
#else
inline VecI multiply_low(VecI a, VecI b) { return _mm256_mul_epu32(a, b); }
inline VecI upper_half(VecI a) { return _mm256_srli_epi64(a, 32); }
inline VecI interleave(const CallPair& x) { return _mm256_blend_epi32(x.even, _mm256_slli_epi64(x.odd, 32), 0xaa); }
inline std::uint32_t halves_at_least(VecI a, VecI limit) {
  const VecI yes = _mm256_cmpeq_epi16(_mm256_max_epu16(a, limit), a);
  return _pext_u32(static_cast<std::uint32_t>(_mm256_movemask_epi8(yes)), 0x55555555U);
}
inline VecI splat_half(std::uint32_t x) { return _mm256_set1_epi16(static_cast<std::int16_t>(x)); }
inline VecI each_four_times(const std::uint32_t* words) {
  const VecI index = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(words))), index);
}
inline void store_block_words(std::uint32_t* p, __m128i words) { _mm_storel_epi64(reinterpret_cast<__m128i*>(p), words); }
inline VecI call_offsets() { return _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3); }
#endif

struct Product {
  std::uint32_t high, low;
};
inline Product multiply_scalars(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}
inline VecI xor_int(VecI a, VecI b) { return a ^ b; }
inline VecI splat_word(std::uint32_t x) { return splat_int(static_cast<std::int32_t>(x)); }

/// The part of Philox's first rounds that only the item decides: the counters of its calls differ in word 3 alone, so round 1 needs no
/// vector product, and rounds 2 and 3 one each instead of two.
struct DropoutStart {
  std::uint32_t round1_word2;                ///< xor word 3 of the counter = word 2 after round 1
  std::uint32_t round2_word0;                ///< xor the product's high half = word 0 after round 2
  std::uint32_t round3_word0, round3_word1;  ///< xor word 1 after round 2; as it is
  std::uint32_t round3_word2;                ///< xor the product's high half = word 2 after round 3
};
inline DropoutStart start_dropout(const AttentionItem& item) {
  const Product a = multiply_scalars(item.counter0, kPhiloxMultiplier0);
  const Product b = multiply_scalars(item.counter2, kPhiloxMultiplier1);
  const std::uint32_t word0 = b.high ^ item.counter1 ^ item.key0;
  const Product c = multiply_scalars(word0, kPhiloxMultiplier0);
  const std::uint32_t key0 = item.key0 + kPhiloxWeyl0;
  const std::uint32_t key1 = item.key1 + kPhiloxWeyl1;
  const Product d = multiply_scalars(c.high ^ a.low ^ key1, kPhiloxMultiplier1);
  return {a.high ^ item.key1, b.low ^ key0, d.high ^ (key0 + kPhiloxWeyl0), d.low, c.low ^ (key1 + kPhiloxWeyl1)};
}

/// Four output words of kLanes calls; call_words is word 3 of their counters, in the low halves of 64-bit lanes.
struct CallWords {
  VecI word[4];
};
inline CallWords random_calls(const AttentionItem& item, const DropoutStart& start, const CallPair& call_words) {
  const VecI multiplier0 = splat_word(kPhiloxMultiplier0);
  const VecI multiplier1 = splat_word(kPhiloxMultiplier1);
  const auto first_rounds = [&](VecI word3, VecI(&c)[4]) {
    const VecI b = multiply_low(xor_int(word3, splat_word(start.round1_word2)), multiplier1);
    const VecI a = multiply_low(xor_int(upper_half(b), splat_word(start.round2_word0)), multiplier0);
    c[0] = xor_int(b, splat_word(start.round3_word0));
    c[1] = splat_word(start.round3_word1);
    c[2] = xor_int(upper_half(a), splat_word(start.round3_word2));
    c[3] = a;
  };
  VecI even[4];
  VecI odd[4];
  first_rounds(call_words.even, even);
  first_rounds(call_words.odd, odd);
  const auto round = [&](VecI(&c)[4], VecI key0, VecI key1) {
    const VecI a = multiply_low(c[0], multiplier0);
    const VecI b = multiply_low(c[2], multiplier1);
    c[0] = xor3(upper_half(b), c[1], key0);
    c[1] = b;
    c[2] = xor3(upper_half(a), c[3], key1);
    c[3] = a;
  };
#pragma GCC unroll 7
  for (std::uint32_t i = 3; i < 10; ++i) {
    const VecI key0 = splat_word(item.key0 + i * kPhiloxWeyl0);
    const VecI key1 = splat_word(item.key1 + i * kPhiloxWeyl1);
    round(even, key0, key1);
    round(odd, key0, key1);
  }
  CallWords words;
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) words.word[j] = interleave({even[j], odd[j]});
  return words;
}

/// Decides kBlocksAtOnce blocks; counters[i] is word 3 of block i's first call.
inline void decide_blocks(const AttentionItem& item, const DropoutStart& start, const std::uint32_t* counters, std::uint32_t* keep) {
  const VecI calls = or_int(each_four_times(counters), call_offsets());
  const CallWords random = random_calls(item, start, {calls, upper_half(calls)});
  const VecI limit = splat_half(item.threshold);
  // Byte i of mask j: columns 8j .. 8j + 7 of block i, because lanes come as t = 0..3 and halves low, high.
  const std::uint32_t mask0 = halves_at_least(random.word[0], limit);
  const std::uint32_t mask1 = halves_at_least(random.word[1], limit);
  const std::uint32_t mask2 = halves_at_least(random.word[2], limit);
  const std::uint32_t mask3 = halves_at_least(random.word[3], limit);
  const __m128i masks = _mm_setr_epi32(static_cast<int>(mask0), static_cast<int>(mask1), static_cast<int>(mask2), static_cast<int>(mask3));
  store_block_words(keep, _mm_shuffle_epi8(masks, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)));
}

constexpr std::int64_t kDropoutRows = 12;  // most rows decided in one go
constexpr std::int64_t kDropoutWords = kKeyBlock / 32;

/// Writes the keep words of `rows` query rows from `row` for up to kKeyBlock keys from first_key. Blocks of all rows are lined up, so
/// that short rows fill the vectors too.
inline void decide_rows(const AttentionItem& item, const DropoutStart& start, std::int64_t row, std::int64_t rows, std::int64_t first_key,
                        std::int64_t keys) {
  alignas(64) std::uint32_t counters[kDropoutRows * kDropoutWords + kBlocksAtOnce];
  alignas(64) std::uint32_t words[kDropoutRows * kDropoutWords + kBlocksAtOnce];
  const std::int64_t blocks = (keys + 31) / 32;
  std::int64_t count = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint32_t position = static_cast<std::uint32_t>(item.query_position[row + r]) << 16;
    for (std::int64_t b = 0; b < blocks; ++b) counters[count++] = position | static_cast<std::uint32_t>(first_key / 8 + 4 * b);
  }
  for (std::int64_t i = 0; i < kBlocksAtOnce; ++i) counters[count + i] = 0;
  for (std::int64_t i = 0; i < count; i += kBlocksAtOnce) decide_blocks(item, start, counters + i, words + i);
  const std::uint32_t* from = words;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint32_t* const keep = item.keep + (row + r) * item.keep_stride + first_key / 32;
    for (std::int64_t b = 0; b < blocks; ++b) keep[b] = *from++;
  }
}

/// Keep bits of kLanes keys from key k (a multiple of kLanes).
inline std::uint32_t keep_at(const std::uint32_t* keep, std::int64_t k) { return keep[k / 32] >> (k % 32); }

}  // namespace
}  // namespace flashbert::cpu
