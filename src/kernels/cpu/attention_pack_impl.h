// Operands of the attention kernels: rows of the tensors packed, transposed or converted into scratch. Everything is in an unnamed
// namespace.
#pragma once

#include "kernels/cpu/attention_tiles_impl.h"

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
inline void store_as(Half* p, VecF x) { store_bf16(p, x); }

/// Up to kLanes elements; lanes past the end are 0.
template <class T>
inline VecF load_up_to(const T* p, std::int64_t count) {
  return count >= kLanes ? load_as(p) : load_part(p, count);
}

/// Up to kLanes words of a row; lanes past the end are 0.
template <class T>
inline VecF row_words(const T* p, std::int64_t words) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    if (words >= kLanes) return load_words(reinterpret_cast<const Word*>(p));
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi32(first_lanes(words), p));
  }
#endif
  return load_up_to(p, words);
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

/// B = X^T for X (rows x columns of T), in panels of kPanel rows of X: panel, then word (a column or a pair of columns), then row. Rows up
/// to a multiple of kLanes are filled with 0.
template <class T>
inline void pack_transposed(Word* out, const T* x, std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  const std::int64_t words = columns / kPerWord<T>;
  for (std::int64_t row = 0; row < rows; row += kLanes) {
    Word* const panel = out + row / kPanel * kPanel * words + row % kPanel;
    for (std::int64_t word = 0; word < words; word += kLanes) {
      VecF block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        block[i] = row + i < rows ? row_words(x + (row + i) * stride + word * kPerWord<T>, words - word) : zero();
      }
      transpose_words(block);
      const std::int64_t count = smaller(words - word, kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        if (i < count) store_words(panel + (word + i) * kPanel, block[i]);
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
