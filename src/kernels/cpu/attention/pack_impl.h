// Operands of the attention kernels: rows of the tensors packed, transposed or converted into scratch. Everything is in an unnamed
// namespace.
#pragma once

#include "kernels/cpu/attention/tiles_impl.h"

namespace flashbert::cpu {
namespace {

/// Cuts typed pieces, each on a cache line, off a block of memory.
class ScratchCutter {
 public:
  explicit ScratchCutter(void* start) : next_(static_cast<char*>(start)) {}
  template <class T>
  T* take(std::int64_t count) {
    T* const piece = reinterpret_cast<T*>(next_);
    next_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return piece;
  }

 private:
  char* next_;
};

inline VecF load_as(const float* p) { return load(p); }
inline VecF load_as(const Half* p) { return load_bf16(p); }
inline void store_as(float* p, VecF x) { store(p, x); }
#if defined(__AVX512BF16__)
/// The processor's own conversion: a quarter of the cost of store_bf16; it takes subnormals as 0, as its products do.
inline __m256i to_halves(VecF x) { return (__m256i)_mm512_cvtneps_pbh(x); }
inline void store_as(Half* p, VecF x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_halves(x)); }
#else
inline void store_as(Half* p, VecF x) { store_bf16(p, x); }
#endif

/// Up to kLanes elements; lanes past the end are 0.
template <class T>
inline VecF load_up_to(const T* p, std::int64_t count) {
  return count >= kLanes ? load_as(p) : load_part(p, count);
}

/// Four words of a row.
template <class T>
inline __m128 four_words(const T* p) {
  if constexpr (kPairs<T> || sizeof(T) == sizeof(float)) {
    return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  } else {
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))), 16));
  }
}

#if defined(__AVX512F__)
inline VecF join(const __m128 (&quarters)[4]) {
  const __m512 low = _mm512_insertf32x4(_mm512_castps128_ps512(quarters[0]), quarters[1], 1);
  return _mm512_insertf32x4(_mm512_insertf32x4(low, quarters[2], 2), quarters[3], 3);
}
inline VecF unpack_low(VecF a, VecF b) { return _mm512_unpacklo_ps(a, b); }
inline VecF unpack_high(VecF a, VecF b) { return _mm512_unpackhi_ps(a, b); }
inline VecF unpack_low_pairs(VecF a, VecF b) { return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
inline VecF unpack_high_pairs(VecF a, VecF b) { return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b))); }
#else
inline VecF join(const __m128 (&quarters)[2]) { return _mm256_insertf128_ps(_mm256_castps128_ps256(quarters[0]), quarters[1], 1); }
inline VecF unpack_low(VecF a, VecF b) { return _mm256_unpacklo_ps(a, b); }
inline VecF unpack_high(VecF a, VecF b) { return _mm256_unpackhi_ps(a, b); }
inline VecF unpack_low_pairs(VecF a, VecF b) { return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }
inline VecF unpack_high_pairs(VecF a, VecF b) { return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b))); }
#endif

/// Four words of rows first, first + 4, first + 8, ... (one a 128-bit lane); rows from `rows` on are 0.
template <class T>
inline VecF words_of_every_fourth(const T* x, std::int64_t stride, std::int64_t first, std::int64_t rows) {
  __m128 quarters[kLanes / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) quarters[i] = first + 4 * i < rows ? four_words(x + (first + 4 * i) * stride) : _mm_setzero_ps();
  return join(quarters);
}

/// Transposes kLanes rows x four words: loading every fourth row into one vector leaves shuffles inside 128-bit lanes only, and few
/// enough registers that nothing spills.
template <class T>
inline void transpose_four_words(Word* out, const T* x, std::int64_t stride, std::int64_t rows) {
  const VecF row0 = words_of_every_fourth(x, stride, 0, rows);
  const VecF row1 = words_of_every_fourth(x, stride, 1, rows);
  const VecF row2 = words_of_every_fourth(x, stride, 2, rows);
  const VecF row3 = words_of_every_fourth(x, stride, 3, rows);
  const VecF low01 = unpack_low(row0, row1);
  const VecF low23 = unpack_low(row2, row3);
  const VecF high01 = unpack_high(row0, row1);
  const VecF high23 = unpack_high(row2, row3);
  store_words(out, unpack_low_pairs(low01, low23));
  store_words(out + kPanel, unpack_high_pairs(low01, low23));
  store_words(out + 2 * kPanel, unpack_low_pairs(high01, high23));
  store_words(out + 3 * kPanel, unpack_high_pairs(high01, high23));
}

/// B = X^T for X (rows x columns of T), in panels of kPanel rows of X: panel, then word (a column or a pair of columns), then row. Rows up
/// to a multiple of kLanes are filled with 0. Columns are a multiple of 8, so words are one of 4.
template <class T>
inline void pack_panels(Word* out, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t words = columns / kPerWord<T>;
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    Word* const panel = out + row / kPanel * kPanel * words + row % kPanel;
    const T* const from = x + row * stride;
    for (std::int64_t word = 0; word < words; word += 4) {
      if (row + kLanes <= rows) {
        transpose_four_words(panel + word * kPanel, from + word * kPerWord<T>, stride, kLanes);
      } else {
        transpose_four_words(panel + word * kPanel, from + word * kPerWord<T>, stride, rows - row);
      }
    }
  }
}

/// B = X for X (rows x columns of T), row_step words from row (or pair of rows) to row: words pair neighbouring rows, or are f32. Columns
/// up to a multiple of kLanes and (for pairs) a missing last row are filled with 0.
template <class T>
inline void pack_natural(Word* out, std::int64_t row_step, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    const auto halves = [&](std::int64_t row, std::int64_t column) {
      if (row >= rows) return _mm512_setzero_si512();
      const __mmask16 lanes = columns - column >= kLanes ? __mmask16{0xffff} : first_lanes(columns - column);
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, x + row * stride + column));
    };
    for (std::int64_t row = 0; row < rows; row += 2) {
      for (std::int64_t column = 0; column < columns; column += kLanes) {
        const __m512i pair = _mm512_or_si512(halves(row, column), _mm512_slli_epi32(halves(row + 1, column), 16));
        _mm512_storeu_si512(out + row / 2 * row_step + column, pair);
      }
    }
    return;
  }
#endif
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; column += kLanes) {
      store_words(out + row * row_step + column, load_up_to(x + row * stride + column, columns - column));
    }
  }
}

/// A = X: the rows themselves where they are words already, else f32 copies in `buffer` (rows x columns).
template <class T>
inline OperandA as_operand(const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* buffer) {
  if constexpr (kPairs<T>) {
    if (stride % 2 == 0) return {reinterpret_cast<const Word*>(x), stride / 2, 1};
    Half* const copy = reinterpret_cast<Half*>(buffer);  // words must start on even elements
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) copy[r * columns + c] = x[r * stride + c];
    }
    return {reinterpret_cast<const Word*>(copy), columns / 2, 1};
  } else if constexpr (sizeof(T) == sizeof(float)) {
    static_cast<void>(rows);
    static_cast<void>(buffer);
    return {reinterpret_cast<const Word*>(x), stride, 1};
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; c += kLanes) {
        const VecF values = load_up_to(x + r * stride + c, columns - c);
        if (columns - c >= kLanes) {
          store(buffer + r * columns + c, values);
        } else {
          store_part(buffer + r * columns + c, values, columns - c);
        }
      }
    }
    return {reinterpret_cast<const Word*>(buffer), columns, 1};
  }
}

/// Writes f32 values to a row of the output's type, times `factor`.
template <class T>
inline void write_row(T* out, const float* values, float factor, std::int64_t columns) {
  std::int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) store_as(out + c, load(values + c) * splat(factor));
  if (c < columns) store_part(out + c, load(values + c) * splat(factor), columns - c);  // rows of values are padded to whole vectors
}

}  // namespace
}  // namespace flashbert::cpu
