// The small matrix product of the attention kernels at the width of simd.h. Included by attention_<isa>.cpp through the passes; everything
// is in an unnamed namespace.
//
// All products have the form C (rows x columns) += A (rows x k) B (k x columns): A's values are broadcast, B's rows are vectors. Operands
// are 32-bit words: one f32, or (with bf16 hardware) a pair of bf16 that are neighbours along k, multiplied and added by one instruction.
#pragma once

#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/simd/simd.h"

namespace flashbert::cpu {
namespace {

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

// core/rounding.h again, whose functions the linker could share with code for lesser processors.
inline std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }
inline std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

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

inline OperandA from_row(const OperandA& a, std::int64_t row) { return {a.words + row * a.row_step, a.row_step, a.k_step}; }

template <int Rows, int Vectors, bool Pairs>
__attribute__((noinline)) void multiply_tile(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t words, Start start) {
  VecF sums[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[r][v] = start == Start::kZero ? zero() : load(c.values + r * c.row_step + v * kLanes);
  }
  const Word* a_word = a.words;
  const Word* b_row = b.words;
  const std::int64_t a_row_step = a.row_step;
  const std::int64_t a_k_step = a.k_step;
  const std::int64_t b_k_step = b.k_step;
  for (std::int64_t k = 0; k < words; ++k) {
    VecF row[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) row[v] = load_words(b_row + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const VecF value = broadcast(a_word + r * a_row_step);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sums[r][v] = multiply_add<Pairs>(sums[r][v], value, row[v]);
    }
    a_word += a_k_step;
    b_row += b_k_step;
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) store(c.values + r * c.row_step + v * kLanes, sums[r][v]);
  }
}

// 6 x 4 or 12 x 2 accumulators of 32 registers (6 x 2 or 12 x 1 of 16 with AVX2) leave room for one row of B and the broadcast value, and
// hide the latency of a multiply-add.
constexpr int kTileRows = 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;
constexpr std::int64_t kPanel = kTileVectors * kLanes;  ///< columns of B that are stored side by side

template <int Vectors, bool Pairs>
inline void multiply_rows(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t rows, std::int64_t words, Start start) {
  std::int64_t row = 0;
  const auto into = [&] { return ResultC{c.values + row * c.row_step, c.row_step}; };
  if constexpr (2 * Vectors <= kTileVectors) {
    for (; row + 2 * kTileRows <= rows; row += 2 * kTileRows) {
      multiply_tile<2 * kTileRows, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
    }
  }
  for (; row < rows; row += kTileRows) {
    switch (rows - row) {
      case 1:
        multiply_tile<1, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
      case 2:
        multiply_tile<2, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
      case 3:
        multiply_tile<3, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
      case 4:
        multiply_tile<4, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
      case 5:
        multiply_tile<5, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
      default:
        multiply_tile<6, Vectors, Pairs>(from_row(a, row), b, into(), words, start);
        break;
    }
  }
}

/// C (rows x columns) = or += A B; columns is a multiple of kLanes, words the length of k in words.
template <bool Pairs>
inline void multiply(const OperandA& a, const OperandB& b, const ResultC& c, std::int64_t rows, std::int64_t columns, std::int64_t words,
                     Start start) {
  std::int64_t column = 0;
  const auto at = [&] { return OperandB{b.words + column, b.k_step}; };
  const auto into = [&] { return ResultC{c.values + column, c.row_step}; };
  for (; column + kPanel <= columns; column += kPanel) multiply_rows<kTileVectors, Pairs>(a, at(), into(), rows, words, start);
  switch ((columns - column) / kLanes) {
    case 1:
      return multiply_rows<1, Pairs>(a, at(), into(), rows, words, start);
    case 2:
      if constexpr (kTileVectors > 2) return multiply_rows<2, Pairs>(a, at(), into(), rows, words, start);
      return;
    case 3:
      if constexpr (kTileVectors > 3) return multiply_rows<3, Pairs>(a, at(), into(), rows, words, start);
      return;
    default:
      return;
  }
}

}  // namespace
}  // namespace flashbert::cpu
