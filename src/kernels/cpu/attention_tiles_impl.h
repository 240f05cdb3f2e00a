// Building blocks of the attention kernels at the width of simd.h: packed operands and a small matrix product. Included by
// attention_<isa>.cpp through the passes; everything is in an unnamed namespace.
//
// All products have the form C (rows x columns) += A (rows x k) B (k x columns): A's values are broadcast, B's rows are vectors. Operands
// are 32-bit words: one f32, or (with bf16 hardware) a pair of bf16 that are neighbours along k, multiplied and added by one instruction.
#pragma once

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd.h"

namespace flashbert::cpu {
namespace {

using Half = std::uint16_t;  // the bits of a bf16
using Word = std::uint32_t;

#if defined(__AVX512BF16__)
constexpr bool kHasPairs = true;
#else
constexpr bool kHasPairs = false;
#endif

/// Whether operands of this element type travel as pairs.
template <class T>
constexpr bool kPairs = kHasPairs && sizeof(T) == 2;
/// Elements along k in a word.
template <class T>
constexpr std::int64_t kPerWord = kPairs<T> ? 2 : 1;

inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

inline VecF load_as(const float* p) { return load(p); }
inline VecF load_as(const Half* p) { return load_bf16(p); }
inline void store_as(float* p, VecF x) { store(p, x); }
inline void store_as(Half* p, VecF x) { store_bf16(p, x); }

#if defined(__AVX512F__)
inline VecF load_words(const Word* p) { return _mm512_castsi512_ps(_mm512_loadu_si512(p)); }
inline void store_words(Word* p, VecF x) { _mm512_storeu_si512(p, _mm512_castps_si512(x)); }
inline VecF broadcast(const Word* p) { return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*p))); }
#else
inline VecF load_words(const Word* p) { return _mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
inline void store_words(Word* p, VecF x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_castps_si256(x)); }
inline VecF broadcast(const Word* p) { return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(*p))); }
#endif

/// acc + a b, or acc + a.low b.low + a.high b.high for pairs.
template <bool Pairs>
inline VecF multiply_add(VecF acc, VecF a, VecF b) {
#if defined(__AVX512BF16__)
  if constexpr (Pairs) return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
#endif
  return fma(a, b, acc);
}

/// Where the words of A lie: element (row, k) at row * row_step + k * k_step.
struct OperandA {
  const Word* words = nullptr;
  std::int64_t row_step = 0, k_step = 1;
};
struct OperandB {
  const Word* words = nullptr;
  std::int64_t k_step = 0;
};
struct ResultC {
  float* values = nullptr;
  std::int64_t row_step = 0;
};
enum class Start { kZero, kResult };

template <int Rows, int Vectors, bool Pairs>
inline void multiply_tile(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t words, Start start) {
  VecF sums[Rows][Vectors];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) sums[r][v] = start == Start::kZero ? zero() : load(c.values + r * c.row_step + v * kLanes);
  }
  for (std::int64_t k = 0; k < words; ++k) {
    VecF row[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) row[v] = load_words(b.words + k * b.k_step + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const VecF value = broadcast(a.words + r * a.row_step + k * a.k_step);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add<Pairs>(sums[r][v], value, row[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) store(c.values + r * c.row_step + v * kLanes, sums[r][v]);
  }
}

// 6 x 4 accumulators of 32 registers (6 x 2 of 16 with AVX2) leave room for one row of B and the broadcast value.
constexpr int kTileRows = 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

template <int Vectors, bool Pairs>
inline void multiply_rows(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t rows, std::int64_t words, Start start) {
  std::int64_t row = 0;
  for (; row < rows; row += kTileRows) {
    const OperandA a_row = {a.words + row * a.row_step, a.row_step, a.k_step};
    const ResultC c_row = {c.values + row * c.row_step, c.row_step};
    switch (rows - row) {
      case 1:
        multiply_tile<1, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
      case 2:
        multiply_tile<2, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
      case 3:
        multiply_tile<3, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
      case 4:
        multiply_tile<4, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
      case 5:
        multiply_tile<5, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
      default:
        multiply_tile<6, Vectors, Pairs>(a_row, b, c_row, words, start);
        break;
    }
  }
}

/// C (rows x columns) = or += A B; columns is a multiple of kLanes, words the length of k in words.
template <bool Pairs>
inline void multiply(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t rows, std::int64_t columns, std::int64_t words,
                     Start start) {
  std::int64_t column = 0;
  const auto at = [&](std::int64_t offset) { return OperandB{b.words + offset, b.k_step}; };
  const auto into = [&](std::int64_t offset) { return ResultC{c.values + offset, c.row_step}; };
  for (; column + kTileVectors * kLanes <= columns; column += kTileVectors * kLanes) {
    multiply_rows<kTileVectors, Pairs>(a, at(column), into(column), rows, words, start);
  }
  for (; column < columns; column += kLanes) multiply_rows<1, Pairs>(a, at(column), into(column), rows, words, start);
}

/// `count` elements (<= kLanes words) of a row as words; lanes past the end are 0.
template <class T>
inline VecF row_words(const T* p, std::int64_t words) {
  if constexpr (kPairs<T>) {
    if (words >= kLanes) return load_words(reinterpret_cast<const Word*>(p));
    alignas(64) Half padded[2 * kLanes] = {};
    for (std::int64_t i = 0; i < 2 * words; ++i) padded[i] = p[i];
    return load_words(reinterpret_cast<const Word*>(padded));
  } else {
    if (words >= kLanes) return load_as(p);
    alignas(64) T padded[kLanes] = {};
    for (std::int64_t i = 0; i < words; ++i) padded[i] = p[i];
    return load_as(padded);
  }
}

#if defined(__AVX512F__)
/// Transposes 16 x 16 words in registers.
inline void transpose_words(VecF (&r)[16]) {
  VecF t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
  }
}
#else
/// Transposes 8 x 8 words in registers.
inline void transpose_words(VecF (&r)[8]) {
  VecF t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  VecF s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    s[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    s[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    s[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    s[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
    r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
  }
}
#endif

/// B = X^T for X (rows x columns of T): out[word of a column pair or column][row], row_step words apart; rows up to a multiple of kLanes
/// are filled with 0.
template <class T>
inline void pack_transposed(Word* out, std::int64_t k_step, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t words = columns / kPerWord<T>;
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    for (std::int64_t word = 0; word < words; word += kLanes) {
      VecF block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        block[i] = row + i < rows ? row_words(x + (row + i) * stride + word * kPerWord<T>, words - word) : zero();
      }
      transpose_words(block);
      const std::int64_t count = words - word < kLanes ? words - word : kLanes;
      for (std::int64_t i = 0; i < count; ++i) store_words(out + (word + i) * k_step + row, block[i]);
    }
  }
}

/// B = X for X (rows x columns of T): words pair neighbouring rows, or are f32. Columns up to a multiple of kLanes and (for pairs) a
/// missing last row are filled with 0.
template <class T>
inline void pack_natural(Word* out, std::int64_t k_step, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    const auto halves = [&](std::int64_t row, std::int64_t column) {
      alignas(32) Half padded[kLanes] = {};
      if (row >= rows) return _mm512_setzero_si512();
      const T* const p = x + row * stride + column;
      if (column + kLanes <= columns) return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
      for (std::int64_t i = 0; i < columns - column; ++i) padded[i] = p[i];
      return _mm512_cvtepu16_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(padded)));
    };
    for (std::int64_t row = 0; row < rows; row += 2) {
      for (std::int64_t column = 0; column < columns; column += kLanes) {
        const __m512i pair = _mm512_or_si512(halves(row, column), _mm512_slli_epi32(halves(row + 1, column), 16));
        _mm512_storeu_si512(out + row / 2 * k_step + column, pair);
      }
    }
    return;
  }
#endif
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      alignas(64) T padded[kLanes] = {};
      const T* p = x + row * stride + column;
      if (column + kLanes > columns) {
        for (std::int64_t i = 0; i < columns - column; ++i) padded[i] = p[i];
        p = padded;
      }
      store_words(out + row * k_step + column, load_as(p));
    }
  }
}

/// A = X: the rows themselves where they are words already, else f32 copies in `buffer` (rows x columns).
template <class T>
inline OperandA as_operand(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* buffer) {
  if constexpr (kPairs<T>) {
    static_cast<void>(buffer);
    if (stride % 2 == 0) return {reinterpret_cast<const Word*>(x), stride / 2, 1};
    Half* const copy = reinterpret_cast<Half*>(buffer);  // words must start on even elements
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) copy[r * columns + c] = x[r * stride + c];
    }
    return {reinterpret_cast<const Word*>(copy), columns / 2, 1};
  } else if constexpr (sizeof(T) == sizeof(float)) {
    static_cast<void>(rows);
    return {reinterpret_cast<const Word*>(x), stride, 1};
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; c += 8) {
        const __m256 values = _mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + r * stride + c))), 16));
        _mm256_storeu_ps(buffer + r * columns + c, values);
      }
    }
    return {reinterpret_cast<const Word*>(buffer), columns, 1};
  }
}

/// Writes f32 rows to the output's type, scaled row by row (columns a multiple of 8).
template <class T>
inline void write_row(T* out, const float* values, float scale, std::int64_t columns) {
  std::int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) store_as(out + c, load(values + c) * splat(scale));
  if (c < columns) {
    alignas(64) T padded[kLanes];
    store_as(padded, load(values + c) * splat(scale));  // the row is padded to whole vectors
    for (std::int64_t i = 0; c + i < columns; ++i) out[c + i] = padded[i];
  }
}

/// Keep words of one query row for `columns` keys from column 0 (kernels/formulas.h: four calls a 32-column block).
inline void dropout_words(const AttentionItem& item, std::uint32_t position, std::int64_t columns, std::uint32_t* keep) {
  constexpr std::int64_t kColumnsAtOnce = kLanes / 4 * 32;
  const VecI limit = splat_int(static_cast<std::int32_t>(item.threshold));
  for (std::int64_t column = 0; column < columns; column += kColumnsAtOnce) {
    const VecI block = add_int(lane_numbers(), splat_int(static_cast<std::int32_t>(column / 8)));
    const PhiloxLanes random =
        philox(splat_int(static_cast<std::int32_t>(item.counter0)), splat_int(static_cast<std::int32_t>(item.counter1)),
               splat_int(static_cast<std::int32_t>(item.counter2)), or_int(splat_int(static_cast<std::int32_t>(position << 16)), block),
               item.key0, item.key1);
    // bytes[j] holds, for each 32-column block of the call group, keep byte j: bit 2t from the low half of lane t, 2t + 1 from the high.
    std::uint32_t bytes[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      bytes[j] = _pdep_u32(at_least(low_half(random.word[j]), limit), 0x55555555U) |
                 _pdep_u32(at_least(high_half(random.word[j]), limit), 0xaaaaaaaaU);
    }
    for (int i = 0; i < kLanes / 4; ++i) {
      if (column + 32 * i >= columns) break;
      std::uint32_t word = 0;
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) word |= ((bytes[j] >> (8 * i)) & 0xffU) << (8 * j);
      keep[column / 32 + i] = word;
    }
  }
}

/// Keep bits of kLanes keys from key k (a multiple of kLanes).
inline std::uint32_t keep_at(const std::uint32_t* keep, std::int64_t k) { return keep[k / 32] >> (k % 32); }

}  // namespace
}  // namespace flashbert::cpu
