// Backward pass of one (sequence, head), scores recomputed. For each block of keys (K and V transposed, K packed; dK and dV as f32 sums)
// and each tile of query rows: P = exp(scale Q K^T - lse), dP = dO V^T, dS = P (mask dP - rowsum(dO O)) scale; then dQ += dS K, dV += (mask
// P)^T dO, dK += dS^T Q. P and dS are kept in the operand type, tile by tile; no matrix of queries x keys exists.
#pragma once

#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/attention_tiles_impl.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kBackwardRows = 48;  // query rows of a tile: the sums over them are long enough to hide loading dK and dV
constexpr std::int64_t kScoreColumns = kTileVectors * kLanes;

struct BackwardBuffers {
  Word* key_transposed;  ///< (head words, kKeyBlock)
  Word* value_transposed;
  Word* key;    ///< (key words, width)
  Word* query;  ///< (row words, width): the tile's rows as operand B
  Word* dout;
  Word* dropped;    ///< masked and scaled P of the tile: (row words, kKeyBlock)
  Word* ds_by_row;  ///< dS: (rows, kKeyBlock / elements a word)
  Word* ds_by_key;  ///< dS: (row words, kKeyBlock); the same memory as ds_by_row for f32
  float* dquery;    ///< (queries, width)
  float* dkey;      ///< (kKeyBlock, width)
  float* dvalue;
  float* row_sums;  ///< (queries): sum of dO O
  float* scores;    ///< (kTileRows, kScoreColumns)
  float* dprobabilities;
  float* operand_query;
  float* operand_dout;
};

/// Two rows of P or dS become words along the rows.
template <class T>
inline void store_row_pair(Word* words, VecF first, VecF second) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(first));
    const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(second));
    _mm512_storeu_si512(words, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    return;
  }
#endif
  store_words(words, first);
  store_words(words + kKeyBlock, second);
}

/// P and dS of kLanes keys of one row.
struct ScoreGradient {
  VecF dropped, ds;
};
inline ScoreGradient score_gradient(const AttentionItem& item, const BackwardBuffers& buffers, std::int64_t row_in_tile, std::int64_t row,
                                    std::int64_t column, std::int64_t key, std::int64_t first_key) {
  const std::int64_t at = row_in_tile * kScoreColumns + column;
  const float lse = item.lse[row * item.lse_stride];
  VecF p = exp(fma(load(buffers.scores + at), splat(item.scale), splat(-lse)));
  const std::int64_t left = item.keys - first_key - key;
  if (left < kLanes) p = keep_lanes(p, left > 0 ? (1U << left) - 1U : 0U);
  VecF dp = load(buffers.dprobabilities + at);
  VecF dropped = p;
  if (item.threshold > 0) {
    const std::uint32_t bits = keep_at(item.keep + row * item.keep_stride + first_key / 32, key);
    dp = keep_lanes(dp, bits) * splat(item.keep_scale);
    dropped = keep_lanes(p, bits) * splat(item.keep_scale);
  }
  return {dropped, p * (dp - splat(buffers.row_sums[row])) * splat(item.scale)};
}

/// P and dS of up to kTileRows rows and kScoreColumns keys from the scores just computed.
template <class T>
inline void finish_scores(const AttentionItem& item, const BackwardBuffers& buffers, std::int64_t tile_row, std::int64_t row,
                          std::int64_t rows, std::int64_t key, std::int64_t padded_keys, std::int64_t first_key) {
  for (std::int64_t r = 0; r < rows; r += 2) {
    for (std::int64_t c = 0; c < kScoreColumns && key + c < padded_keys; c += kLanes) {
      const ScoreGradient first = score_gradient(item, buffers, r, row + r, c, key + c, first_key);
      ScoreGradient second = {zero(), zero()};
      if (r + 1 < rows) second = score_gradient(item, buffers, r + 1, row + r + 1, c, key + c, first_key);
      const std::int64_t word = (tile_row + r) / kPerWord<T> * kKeyBlock + key + c;
      store_row_pair<T>(buffers.dropped + word, first.dropped, second.dropped);
      store_row_pair<T>(buffers.ds_by_key + word, first.ds, second.ds);
#if defined(__AVX512BF16__)
      if constexpr (kPairs<T>) {
        Half* const by_row = reinterpret_cast<Half*>(buffers.ds_by_row) + (tile_row + r) * kKeyBlock + key + c;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(by_row), (__m256i)_mm512_cvtneps_pbh(first.ds));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(by_row + kKeyBlock), (__m256i)_mm512_cvtneps_pbh(second.ds));
      }
#endif
    }
  }
}

template <class T>
inline void backward_rows(const AttentionItem& item, const BackwardBuffers& buffers, std::int64_t first_key, std::int64_t keys,
                          std::int64_t row, std::int64_t rows) {
  constexpr bool kPair = kPairs<T>;
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const std::int64_t padded_keys = round_up(keys, kLanes);
  const std::int64_t head_words = item.head_dim / kPerWord<T>;
  const std::int64_t row_words = (rows + kPerWord<T> - 1) / kPerWord<T>;
  const T* const query = static_cast<const T*>(item.query) + row * item.query_stride;
  const T* const dout = static_cast<const T*>(item.dout) + row * item.dout_stride;
  pack_natural(buffers.query, width, query, item.query_stride, rows, item.head_dim);
  pack_natural(buffers.dout, width, dout, item.dout_stride, rows, item.head_dim);
  const OperandA query_rows = as_operand(query, item.query_stride, rows, item.head_dim, buffers.operand_query);
  const OperandA dout_rows = as_operand(dout, item.dout_stride, rows, item.head_dim, buffers.operand_dout);
  for (std::int64_t key = 0; key < padded_keys; key += kScoreColumns) {
    const std::int64_t columns = padded_keys - key < kScoreColumns ? padded_keys - key : kScoreColumns;
    for (std::int64_t r = 0; r < rows; r += kTileRows) {
      const std::int64_t count = rows - r < kTileRows ? rows - r : kTileRows;
      const auto from = [&](const OperandA& a) { return OperandA{a.words + r * a.row_step, a.row_step, a.k_step}; };
      multiply<kPair>(from(query_rows), {buffers.key_transposed + key, kKeyBlock}, {buffers.scores, kScoreColumns}, count, columns,
                      head_words, Start::kZero);
      multiply<kPair>(from(dout_rows), {buffers.value_transposed + key, kKeyBlock}, {buffers.dprobabilities, kScoreColumns}, count, columns,
                      head_words, Start::kZero);
      finish_scores<T>(item, buffers, r, row + r, count, key, padded_keys, first_key);
    }
  }
  multiply<kPair>({buffers.ds_by_row, kKeyBlock / kPerWord<T>, 1}, {buffers.key, width}, {buffers.dquery + row * width, width}, rows, width,
                  (keys + kPerWord<T> - 1) / kPerWord<T>, first_key == 0 ? Start::kZero : Start::kResult);
  const Start start = row == 0 ? Start::kZero : Start::kResult;
  multiply<kPair>({buffers.dropped, 1, kKeyBlock}, {buffers.dout, width}, {buffers.dvalue, width}, keys, width, row_words, start);
  multiply<kPair>({buffers.ds_by_key, 1, kKeyBlock}, {buffers.query, width}, {buffers.dkey, width}, keys, width, row_words, start);
}

template <class T>
inline void sum_output_products(const AttentionItem& item, float* sums) {
  for (std::int64_t row = 0; row < item.queries; ++row) {
    const T* const out = static_cast<const T*>(item.out) + row * item.out_stride;
    const T* const dout = static_cast<const T*>(item.dout) + row * item.dout_stride;
    VecF sum = zero();
    std::int64_t c = 0;
    for (; c + kLanes <= item.head_dim; c += kLanes) sum = fma(load_as(out + c), load_as(dout + c), sum);
    if (c < item.head_dim) {
      alignas(64) T rest[2][kLanes] = {};
      for (std::int64_t i = 0; c + i < item.head_dim; ++i) {
        rest[0][i] = out[c + i];
        rest[1][i] = dout[c + i];
      }
      sum = fma(load_as(rest[0]), load_as(rest[1]), sum);
    }
    sums[row] = sum_lanes(sum);
  }
}

template <class T>
inline BackwardBuffers cut_backward(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  ScratchCutter cut(scratch);
  BackwardBuffers b{};
  b.key_transposed = cut.take<Word>(item.head_dim * kKeyBlock);
  b.value_transposed = cut.take<Word>(item.head_dim * kKeyBlock);
  b.key = cut.take<Word>(kKeyBlock * width);
  b.query = cut.take<Word>(kBackwardRows * width);
  b.dout = cut.take<Word>(kBackwardRows * width);
  // One row more than the tile: an odd last row is stored as a pair.
  b.dropped = cut.take<Word>((kBackwardRows + 1) * kKeyBlock);
  b.ds_by_key = cut.take<Word>((kBackwardRows + 1) * kKeyBlock);
  b.ds_by_row = kPairs<T> ? cut.take<Word>((kBackwardRows + 1) * kKeyBlock) : b.ds_by_key;
  b.dquery = cut.take<float>(item.queries * width);
  b.dkey = cut.take<float>(kKeyBlock * width);
  b.dvalue = cut.take<float>(kKeyBlock * width);
  b.row_sums = cut.take<float>(item.queries);
  b.scores = cut.take<float>(kTileRows * kScoreColumns);
  b.dprobabilities = cut.take<float>(kTileRows * kScoreColumns);
  b.operand_query = cut.take<float>(kBackwardRows * item.head_dim);
  b.operand_dout = cut.take<float>(kBackwardRows * item.head_dim);
  return b;
}

template <class T>
void backward_item(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const BackwardBuffers buffers = cut_backward<T>(item, scratch);
  sum_output_products<T>(item, buffers.row_sums);
  for (std::int64_t first_key = 0; first_key < item.keys; first_key += kKeyBlock) {
    const std::int64_t keys = item.keys - first_key < kKeyBlock ? item.keys - first_key : kKeyBlock;
    const T* const key = static_cast<const T*>(item.key) + first_key * item.key_stride;
    const T* const value = static_cast<const T*>(item.value) + first_key * item.value_stride;
    pack_transposed(buffers.key_transposed, kKeyBlock, key, item.key_stride, keys, item.head_dim);
    pack_transposed(buffers.value_transposed, kKeyBlock, value, item.value_stride, keys, item.head_dim);
    pack_natural(buffers.key, width, key, item.key_stride, keys, item.head_dim);
    for (std::int64_t row = 0; row < item.queries; row += kBackwardRows) {
      const std::int64_t rows = item.queries - row < kBackwardRows ? item.queries - row : kBackwardRows;
      backward_rows<T>(item, buffers, first_key, keys, row, rows);
    }
    for (std::int64_t k = 0; k < keys; ++k) {
      write_row(static_cast<T*>(item.dkey) + (first_key + k) * item.dkey_stride, buffers.dkey + k * width, 1.0F, item.head_dim);
      write_row(static_cast<T*>(item.dvalue) + (first_key + k) * item.dvalue_stride, buffers.dvalue + k * width, 1.0F, item.head_dim);
    }
  }
  for (std::int64_t q = 0; q < item.queries; ++q) {
    write_row(static_cast<T*>(item.dquery) + q * item.dquery_stride, buffers.dquery + q * width, 1.0F, item.head_dim);
  }
}

}  // namespace
}  // namespace flashbert::cpu
