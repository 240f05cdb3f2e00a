#include <immintrin.h>

#include <cstddef>
#include <cstring>

#include "kernels/cpu/linear/blocks.h"
#include "kernels/cpu/linear/pack.h"

// AVX2 suffices on every processor: these loops are bound by loads and stores, and 256-bit shuffles run twice a cycle.
namespace flashbert::cpu {
namespace {

using Half = std::uint16_t;  // the bits of a bf16

// What the standard library and core/dtype.h have as inline functions: the linker could take those of this file for everyone.
std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
std::int64_t within(std::int64_t value, std::int64_t low, std::int64_t high) { return value < low ? low : smaller(value, high); }
std::int64_t bytes_of(Dtype dtype) { return dtype == Dtype::kBf16 ? 2 : 4; }
float widened(float value) { return value; }
float widened(Half value) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<std::uint32_t>(value) << 16))));
}
template <class T>
void copy_elements(T* to, const T* from, std::int64_t count) {
  std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(T));
}

struct Registers {
  __m256i of[8];
  __m256i& operator[](std::size_t index) { return of[index]; }
  const __m256i& operator[](std::size_t index) const { return of[index]; }
};

__m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
void store(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

/// Transposes 8 x 8 words of 32 bits.
void transpose_words(std::uint32_t* to, std::int64_t to_stride, const std::uint32_t* from, std::int64_t from_stride) {
  Registers pairs;
  for (std::size_t r = 0; r < 8; r += 2) {
    const __m256i even = load(from + static_cast<std::int64_t>(r) * from_stride);
    const __m256i odd = load(from + static_cast<std::int64_t>(r + 1) * from_stride);
    pairs[r] = _mm256_unpacklo_epi32(even, odd);
    pairs[r + 1] = _mm256_unpackhi_epi32(even, odd);
  }
  Registers quads;  // [q] and [4 + q]: columns q and 4 + q (upper lane) of rows 0-3 and 4-7
  for (std::size_t half = 0; half < 8; half += 4) {
    quads[half] = _mm256_unpacklo_epi64(pairs[half], pairs[half + 2]);
    quads[half + 1] = _mm256_unpackhi_epi64(pairs[half], pairs[half + 2]);
    quads[half + 2] = _mm256_unpacklo_epi64(pairs[half + 1], pairs[half + 3]);
    quads[half + 3] = _mm256_unpackhi_epi64(pairs[half + 1], pairs[half + 3]);
  }
  for (std::size_t q = 0; q < 4; ++q) {
    store(to + static_cast<std::int64_t>(q) * to_stride, _mm256_permute2x128_si256(quads[q], quads[q + 4], 0x20));
    store(to + static_cast<std::int64_t>(q + 4) * to_stride, _mm256_permute2x128_si256(quads[q], quads[q + 4], 0x31));
  }
}

/// Transposes 8 rows of 16 halfwords: result [c], lower lane = column c, upper lane = column 8 + c.
Registers transpose_eight_rows(const Half* from, std::int64_t stride) {
  Registers pairs;
  for (std::size_t r = 0; r < 8; r += 2) {
    const __m256i even = load(from + static_cast<std::int64_t>(r) * stride);
    const __m256i odd = load(from + static_cast<std::int64_t>(r + 1) * stride);
    pairs[r] = _mm256_unpacklo_epi16(even, odd);
    pairs[r + 1] = _mm256_unpackhi_epi16(even, odd);
  }
  Registers quads;
  for (std::size_t half = 0; half < 8; half += 4) {
    quads[half] = _mm256_unpacklo_epi32(pairs[half], pairs[half + 2]);
    quads[half + 1] = _mm256_unpackhi_epi32(pairs[half], pairs[half + 2]);
    quads[half + 2] = _mm256_unpacklo_epi32(pairs[half + 1], pairs[half + 3]);
    quads[half + 3] = _mm256_unpackhi_epi32(pairs[half + 1], pairs[half + 3]);
  }
  Registers columns;
  for (std::size_t q = 0; q < 4; ++q) {
    columns[2 * q] = _mm256_unpacklo_epi64(quads[q], quads[q + 4]);
    columns[2 * q + 1] = _mm256_unpackhi_epi64(quads[q], quads[q + 4]);
  }
  return columns;
}

/// Transposes 16 x 16 halfwords.
void transpose_halfwords(Half* to, std::int64_t to_stride, const Half* from, std::int64_t from_stride) {
  const Registers upper = transpose_eight_rows(from, from_stride);
  const Registers lower = transpose_eight_rows(from + 8 * from_stride, from_stride);
  for (std::size_t c = 0; c < 8; ++c) {
    const auto row = static_cast<std::int64_t>(c);
    store(to + row * to_stride, _mm256_permute2x128_si256(upper[c], lower[c], 0x20));
    store(to + (row + 8) * to_stride, _mm256_permute2x128_si256(upper[c], lower[c], 0x31));
  }
}

void add_rows(float* sums, const float* from, std::int64_t stride, std::int64_t rows) {
  for (std::int64_t c = 0; c < 16; c += 8) {
    __m256 sum = _mm256_loadu_ps(sums + c);
    for (std::int64_t r = 0; r < rows; ++r) sum = _mm256_add_ps(sum, _mm256_loadu_ps(from + r * stride + c));
    _mm256_storeu_ps(sums + c, sum);
  }
}

void add_rows(float* sums, const Half* from, std::int64_t stride, std::int64_t rows) {
  __m256 first = _mm256_loadu_ps(sums);
  __m256 second = _mm256_loadu_ps(sums + 8);
  for (std::int64_t r = 0; r < rows; ++r) {
    const __m256i row = load(from + r * stride);
    const __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(row));
    const __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(row, 1));
    first = _mm256_add_ps(first, _mm256_castsi256_ps(_mm256_slli_epi32(low, 16)));
    second = _mm256_add_ps(second, _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)));
  }
  _mm256_storeu_ps(sums, first);
  _mm256_storeu_ps(sums + 8, second);
}

// 32 rows x 16 columns: whole cache lines of the result are written at once.
constexpr std::int64_t kPatchRows = 32;
constexpr std::int64_t kPatchColumns = 16;

void transpose_patch(Half* to, std::int64_t to_stride, const Half* from, std::int64_t from_stride) {
  transpose_halfwords(to, to_stride, from, from_stride);
  transpose_halfwords(to + 16, to_stride, from + 16 * from_stride, from_stride);
}

void transpose_patch(float* to, std::int64_t to_stride, const float* from, std::int64_t from_stride) {
  for (std::int64_t c = 0; c < kPatchColumns; c += 8) {
    for (std::int64_t r = 0; r < kPatchRows; r += 8) {
      transpose_words(reinterpret_cast<std::uint32_t*>(to + c * to_stride + r), to_stride,
                      reinterpret_cast<const std::uint32_t*>(from + r * from_stride + c), from_stride);
    }
  }
}

template <class To>
void transpose(const TransposeBlock& args) {
  To edge[kPatchRows * kPatchColumns];
  const std::int64_t from_bytes = bytes_of(args.from.dtype);
  for (std::int64_t r = 0; r < args.padded_rows; r += kPatchRows) {
    for (std::int64_t c = 0; c < args.padded_columns; c += kPatchColumns) {
      const std::int64_t rows = within(args.rows - r, 0, kPatchRows);
      const std::int64_t columns = within(args.columns - c, 0, kPatchColumns);
      const auto* const source = static_cast<const std::byte*>(args.from.data) + (r * args.from.stride + c) * from_bytes;
      const To* from = reinterpret_cast<const To*>(source);
      std::int64_t stride = args.from.stride;
      if (rows < kPatchRows || columns < kPatchColumns || args.from.dtype != args.to.dtype) {
        copy_block({.to = {edge, kPatchColumns, args.to.dtype},
                    .from = {source, args.from.stride, args.from.dtype},
                    .rows = rows,
                    .columns = columns,
                    .padded_rows = kPatchRows,
                    .padded_columns = kPatchColumns});
        from = edge;
        stride = kPatchColumns;
      }
      transpose_patch(static_cast<To*>(args.to.data) + c * args.to.stride + r, args.to.stride, from, stride);
      if (args.column_sums == nullptr || columns == 0) continue;
      if (columns == kPatchColumns) {
        add_rows(args.column_sums + c, from, stride, rows);
      } else {
        float sums[kPatchColumns] = {};
        copy_elements(sums, args.column_sums + c, columns);
        add_rows(sums, from, stride, rows);
        copy_elements(args.column_sums + c, sums, columns);
      }
    }
  }
}

template <class T>
void add_columns(float* sums, const ConstBlock& from, std::int64_t rows, std::int64_t columns) {
  const T* const data = static_cast<const T*>(from.data);
  // Patches of rows: what 16 columns leave of a cache line in the first-level cache is taken by the next 16.
  for (std::int64_t r = 0; r < rows; r += kPatchRows) {
    const std::int64_t patch = smaller(rows - r, kPatchRows);
    const T* const first = data + r * from.stride;
    std::int64_t c = 0;
    for (; c + 16 <= columns; c += 16) add_rows(sums + c, first + c, from.stride, patch);
    for (; c < columns; ++c) {
      for (std::int64_t k = 0; k < patch; ++k) sums[c] += widened(first[k * from.stride + c]);
    }
  }
}

/// Rows 2 i and 2 i + 1 side by side: what a dot product of pairs reads.
void interleave_rows(Half* to, const Half* even, const Half* odd) {
  for (std::int64_t c = 0; c < kColumnBlock; c += 16) {
    const __m256i low = _mm256_unpacklo_epi16(load(even + c), load(odd + c));
    const __m256i high = _mm256_unpackhi_epi16(load(even + c), load(odd + c));
    store(to + 2 * c, _mm256_permute2x128_si256(low, high, 0x20));
    store(to + 2 * c + 16, _mm256_permute2x128_si256(low, high, 0x31));
  }
}

template <class T>
const T* padded_row(const PackRows& args, std::int64_t row, std::int64_t column, T (&edge)[kColumnBlock]) {
  const std::int64_t columns = row < args.rows ? smaller(kColumnBlock, args.columns - column) : 0;
  const T* const from = static_cast<const T*>(args.from.data) + row * args.from.stride + column;
  if (columns == kColumnBlock) return from;
  std::memset(edge, 0, sizeof(edge));
  if (columns > 0) copy_elements(edge, from, columns);
  return edge;
}

void pack_rows_bf16(const PackRows& args) {
  Half even_edge[kColumnBlock];
  Half odd_edge[kColumnBlock];
  for (std::int64_t r = 0; r < kRowBlock; r += 2) {
    for (std::int64_t c = 0; c < args.columns; c += kColumnBlock) {
      Half* const to = static_cast<Half*>(args.to) + c / kColumnBlock * args.block_stride + r * kColumnBlock;
      interleave_rows(to, padded_row(args, r, c, even_edge), padded_row(args, r + 1, c, odd_edge));
    }
  }
}

void pack_rows_f32(const PackRows& args) {
  float edge[kColumnBlock];
  for (std::int64_t r = 0; r < kRowBlock; ++r) {
    for (std::int64_t c = 0; c < args.columns; c += kColumnBlock) {
      float* const to = static_cast<float*>(args.to) + c / kColumnBlock * args.block_stride + r * kColumnBlock;
      std::memcpy(to, padded_row(args, r, c, edge), kColumnBlock * sizeof(float));
    }
  }
}

/// Eight rows of W as 32-bit words (a pair of bf16 or one f32), `words` of them, into columns of a block that is 64 words wide.
void pack_eight_rows(std::uint32_t* to, const std::uint32_t* from, std::int64_t from_stride, std::int64_t words) {
  for (std::int64_t w = 0; w < words; w += 8) transpose_words(to + w * kColumnBlock, kColumnBlock, from + w, from_stride);
}

}  // namespace

void transpose_block(const TransposeBlock& args) { args.to.dtype == Dtype::kBf16 ? transpose<Half>(args) : transpose<float>(args); }

void add_column_sums(float* sums, const ConstBlock& from, std::int64_t rows, std::int64_t columns) {
  from.dtype == Dtype::kBf16 ? add_columns<Half>(sums, from, rows, columns) : add_columns<float>(sums, from, rows, columns);
}

void pack_rows(const PackRows& args) { args.from.dtype == Dtype::kBf16 ? pack_rows_bf16(args) : pack_rows_f32(args); }

void pack_transposed(const PackTransposed& args) {
  const std::int64_t bytes = bytes_of(args.from.dtype);
  const std::int64_t per_word = 4 / bytes;
  const std::int64_t words = args.padded_depth / per_word;
  const std::int64_t whole_words = args.depth / per_word / 8 * 8;
  // bf16 rows at an odd stride are not whole words apart; they take the edge path.
  const bool aligned = args.from.stride % per_word == 0;
  std::uint32_t edge[64];
  for (std::int64_t n = 0; n < kColumnBlock; n += 8) {
    auto* const to = static_cast<std::uint32_t*>(args.to) + n;
    const auto* const source = static_cast<const std::byte*>(args.from.data) + n * args.from.stride * bytes;
    const std::int64_t direct = aligned && n + 8 <= args.columns ? whole_words : 0;
    if (direct > 0) pack_eight_rows(to, reinterpret_cast<const std::uint32_t*>(source), args.from.stride / per_word, direct);
    for (std::int64_t w = direct; w < words; w += 8) {
      copy_block({.to = {edge, 8 * per_word, args.from.dtype},
                  .from = {source + w * 4, args.from.stride, args.from.dtype},
                  .rows = within(args.columns - n, 0, 8),
                  .columns = within(args.depth - w * per_word, 0, 8 * per_word),
                  .padded_rows = 8,
                  .padded_columns = 8 * per_word});
      transpose_words(to + w * kColumnBlock, kColumnBlock, edge, 8);
    }
  }
}

}  // namespace flashbert::cpu
