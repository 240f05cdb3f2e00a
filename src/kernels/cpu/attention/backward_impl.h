// Backward pass of one (sequence, head), scores recomputed. For each block of keys (K and V transposed, K packed; dK and dV as f32 sums)
// and each tile of query rows: P = exp(scale Q K^T - lse), dP = dO V^T, dS = P (mask dP - rowsum(dO O)); then dQ += dS K, dV += (mask
// P)^T dO, dK += dS^T Q, and dQ and dK take the factor scale when they are written. P and dS are kept in the operand type, tile by tile;
// no matrix of queries x keys exists.
#pragma once

#include "kernels/cpu/attention/dropout_impl.h"
#include "kernels/cpu/attention/math_impl.h"
#include "kernels/cpu/attention/pack_impl.h"

namespace flashbert::cpu {
namespace {

/// Query rows of a tile: sums over them must be long enough to hide loading and storing dK and dV, P and dS must stay in the second-level
/// cache. Pairs halve both.
template <class T>
constexpr std::int64_t kBackwardRows = kPairs<T> ? kMostBackwardRows : kMostBackwardRows / 2;

struct BackwardScratch {
  Word* key_transposed;    ///< panels of keys
  Word* value_transposed;  ///< panels of keys
  Word* key;               ///< (key words, width)
  Word* query;             ///< (row words, width): the tile's rows as operand B
  Word* dout;
  Word* dropped;      ///< masked and scaled P of the tile: panels of keys, (row words, kPanel) each
  Word* ds_by_key;    ///< dS, likewise
  Word* ds_by_row;    ///< dS: (rows, kBackwardKeys / elements a word)
  float* dquery;      ///< (queries, width)
  float* dkey;        ///< (kBackwardKeys, width)
  float* dvalue;      ///< (kBackwardKeys, width)
  float* row_sums;    ///< (queries): sum of dO O, divided by keep_scale
  float* row_shifts;  ///< (queries): log2(keep_scale) - lse / ln 2
  float* scores;      ///< (kTileRows, kPanel)
  float* dprobabilities;
  float* operand_query;
  float* operand_dout;
};

/// The block of keys and the tile of rows being worked on.
struct BackwardTile {
  std::int64_t first_key, keys;
  std::int64_t row, rows;
};

/// P and dS of kLanes keys of one row; both carry the factor keep_scale.
struct ScoreGradient {
  VecF dropped, ds;
};

struct RowConstants {
  VecF factor, shift, sum;
  const std::uint32_t* keep;
};

template <bool kDrops>
inline ScoreGradient score_gradient(const RowConstants& row, const float* score, const float* dprobability, std::int64_t key,
                                    std::uint32_t valid) {
  const VecF p = keep_lanes(exp2_bounded(fma(load(score), row.factor, row.shift)), valid);
  const VecF dp = load(dprobability);
  if constexpr (!kDrops) return {p, p * (dp - row.sum)};
  const std::uint32_t bits = keep_at(row.keep, key);
  return {keep_lanes(p, bits), p * (keep_lanes(dp, bits) - row.sum)};
}

#if defined(__AVX512BF16__)
/// Two rows of kLanes values as bf16: the first row in the low half.
inline __m512i two_rows(VecF first, VecF second) { return (__m512i)_mm512_cvtne2ps_pbh(second, first); }
/// Words of pairs along the rows.
inline __m512i pair_rows(__m512i rows) {
  const __m512i index = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                                         18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(index, rows);
}
#endif

/// Where kLanes keys of two rows of P and dS go.
struct PairPlace {
  Word* dropped;
  Word* ds_by_key;
  Word* ds_by_row;
};

template <class T>
inline void store_row_pair(const PairPlace& place, const ScoreGradient& first, const ScoreGradient& second) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    const __m512i ds = two_rows(first.ds, second.ds);
    _mm512_storeu_si512(place.dropped, pair_rows(two_rows(first.dropped, second.dropped)));
    _mm512_storeu_si512(place.ds_by_key, pair_rows(ds));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place.ds_by_row), _mm512_castsi512_si256(ds));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place.ds_by_row + kBackwardKeys / 2), _mm512_extracti64x4_epi64(ds, 1));
    return;
  }
#endif
  store_words(place.dropped, first.dropped);
  store_words(place.dropped + kPanel, second.dropped);
  store_words(place.ds_by_key, first.ds);
  store_words(place.ds_by_key + kPanel, second.ds);
  store_words(place.ds_by_row, first.ds);
  store_words(place.ds_by_row + kBackwardKeys, second.ds);
}

/// P and dS of up to kTileRows rows (from row `tile_row` of the tile) and one panel of keys, whose scores have just been computed.
template <class T, bool kDrops>
inline void finish_scores(const AttentionItem& item, const BackwardScratch& buffers, const BackwardTile& tile, std::int64_t tile_row,
                          std::int64_t rows, std::int64_t key) {
  const VecF factor = splat(static_cast<float>(static_cast<double>(item.scale) * kLog2E));
  const std::int64_t keys = smaller(tile.keys - key, kPanel);
  const auto constants = [&](std::int64_t r) {
    const std::int64_t row = tile.row + tile_row + r;
    const std::uint32_t* const keep = kDrops ? item.keep + row * item.keep_stride + tile.first_key / 32 : nullptr;
    return RowConstants{factor, splat(buffers.row_shifts[row]), splat(buffers.row_sums[row]), keep};
  };
  for (std::int64_t r = 0; r < rows; r += 2) {
    const bool has_second = r + 1 < rows;
    const RowConstants first = constants(r);
    const RowConstants second = constants(has_second ? r + 1 : r);
    const std::int64_t word = (key * kBackwardRows<T> + (tile_row + r) * kPanel) / kPerWord<T>;
    const std::int64_t word_by_row = ((tile_row + r) * kBackwardKeys + key) / kPerWord<T>;
    for (std::int64_t c = 0; c < keys; c += kLanes) {
      const std::uint32_t valid = keys - c >= kLanes ? ~0U : (1U << (keys - c)) - 1U;
      const std::int64_t at = r * kPanel + c;
      const std::int64_t next = at + (has_second ? kPanel : 0);
      store_row_pair<T>(
          {buffers.dropped + word + c, buffers.ds_by_key + word + c, buffers.ds_by_row + word_by_row + c / kPerWord<T>},
          score_gradient<kDrops>(first, buffers.scores + at, buffers.dprobabilities + at, key + c, valid),
          score_gradient<kDrops>(second, buffers.scores + next, buffers.dprobabilities + next, key + c, has_second ? valid : 0U));
    }
  }
}

template <class T>
inline void score_gradients(const AttentionItem& item, const BackwardScratch& buffers, const BackwardTile& tile) {
  constexpr bool kPair = kPairs<T>;
  const std::int64_t head_words = item.head_dim / kPerWord<T>;
  const T* const query = static_cast<const T*>(item.query) + tile.row * item.query_stride;
  const T* const dout = static_cast<const T*>(item.dout) + tile.row * item.dout_stride;
  const OperandA query_rows = as_operand(query, item.query_stride, tile.rows, item.head_dim, buffers.operand_query);
  const OperandA dout_rows = as_operand(dout, item.dout_stride, tile.rows, item.head_dim, buffers.operand_dout);
  for (std::int64_t key = 0; key < tile.keys; key += kPanel) {
    const std::int64_t columns = smaller(round_up(tile.keys - key, kLanes), kPanel);
    for (std::int64_t r = 0; r < tile.rows; r += kTileRows) {
      const std::int64_t rows = smaller(tile.rows - r, kTileRows);
      multiply<kPair>(from_row(query_rows, r), {buffers.key_transposed + key * head_words, kPanel}, {buffers.scores, kPanel}, rows, columns,
                      head_words, Start::kZero);
      multiply<kPair>(from_row(dout_rows, r), {buffers.value_transposed + key * head_words, kPanel}, {buffers.dprobabilities, kPanel}, rows,
                      columns, head_words, Start::kZero);
      if (item.threshold > 0) {
        finish_scores<T, true>(item, buffers, tile, r, rows, key);
      } else {
        finish_scores<T, false>(item, buffers, tile, r, rows, key);
      }
    }
  }
}

template <class T>
inline void backward_rows(const AttentionItem& item, const BackwardScratch& buffers, const BackwardTile& tile) {
  constexpr bool kPair = kPairs<T>;
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const std::int64_t row_words = (tile.rows + kPerWord<T> - 1) / kPerWord<T>;
  pack_natural(buffers.query, width, static_cast<const T*>(item.query) + tile.row * item.query_stride, item.query_stride, tile.rows,
               item.head_dim);
  pack_natural(buffers.dout, width, static_cast<const T*>(item.dout) + tile.row * item.dout_stride, item.dout_stride, tile.rows,
               item.head_dim);
  score_gradients<T>(item, buffers, tile);
  multiply<kPair>({buffers.ds_by_row, kBackwardKeys / kPerWord<T>, 1}, {buffers.key, width}, {buffers.dquery + tile.row * width, width},
                  tile.rows, width, (tile.keys + kPerWord<T> - 1) / kPerWord<T>, tile.first_key == 0 ? Start::kZero : Start::kResult);
  const Start start = tile.row == 0 ? Start::kZero : Start::kResult;
  for (std::int64_t key = 0; key < tile.keys; key += kPanel) {
    const std::int64_t keys = smaller(tile.keys - key, kPanel);
    const std::int64_t panel = key * kBackwardRows<T> / kPerWord<T>;
    multiply<kPair>({buffers.dropped + panel, 1, kPanel}, {buffers.dout, width}, {buffers.dvalue + key * width, width}, keys, width,
                    row_words, start);
    multiply<kPair>({buffers.ds_by_key + panel, 1, kPanel}, {buffers.query, width}, {buffers.dkey + key * width, width}, keys, width,
                    row_words, start);
  }
}

/// Row constants of the whole item: sum of dO O, and the shift that makes exp2(scale score / ln 2 + shift) = keep_scale P.
template <class T>
inline void prepare_rows(const AttentionItem& item, const BackwardScratch& buffers) {
  const double log2_keep_scale = __builtin_log2(static_cast<double>(item.keep_scale));
  for (std::int64_t row = 0; row < item.queries; ++row) {
    const T* const out = static_cast<const T*>(item.out) + row * item.out_stride;
    const T* const dout = static_cast<const T*>(item.dout) + row * item.dout_stride;
    VecF sum = zero();
    for (std::int64_t c = 0; c < item.head_dim; c += kLanes) {
      sum = fma(load_up_to(out + c, item.head_dim - c), load_up_to(dout + c, item.head_dim - c), sum);
    }
    buffers.row_sums[row] = sum_lanes(sum) / item.keep_scale;
    buffers.row_shifts[row] = static_cast<float>(log2_keep_scale - static_cast<double>(item.lse[row]) * kLog2E);
  }
}

template <class T>
inline BackwardScratch cut_backward(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  constexpr std::int64_t kRows = kBackwardRows<T>;
  ScratchCutter cut(scratch);
  BackwardScratch b;
  b.key_transposed = cut.take<Word>(item.head_dim * kBackwardKeys);
  b.value_transposed = cut.take<Word>(item.head_dim * kBackwardKeys);
  b.key = cut.take<Word>(kBackwardKeys * width);
  b.query = cut.take<Word>(kRows * width);
  b.dout = cut.take<Word>(kRows * width);
  b.dropped = cut.take<Word>(kRows * kBackwardKeys);
  b.ds_by_key = cut.take<Word>(kRows * kBackwardKeys);
  b.ds_by_row = cut.take<Word>(kRows * kBackwardKeys);
  b.dquery = cut.take<float>(item.queries * width);
  b.dkey = cut.take<float>(kBackwardKeys * width);
  b.dvalue = cut.take<float>(kBackwardKeys * width);
  b.row_sums = cut.take<float>(item.queries);
  b.row_shifts = cut.take<float>(item.queries);
  b.scores = cut.take<float>(kTileRows * kPanel);
  b.dprobabilities = cut.take<float>(kTileRows * kPanel);
  b.operand_query = cut.take<float>(kRows * item.head_dim);
  b.operand_dout = cut.take<float>(kRows * item.head_dim);
  return b;
}

template <class T>
void backward_item(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const BackwardScratch buffers = cut_backward<T>(item, scratch);
  prepare_rows<T>(item, buffers);
  for (std::int64_t first_key = 0; first_key < item.keys; first_key += kBackwardKeys) {
    const std::int64_t keys = smaller(item.keys - first_key, kBackwardKeys);
    const T* const key = static_cast<const T*>(item.key) + first_key * item.key_stride;
    const T* const value = static_cast<const T*>(item.value) + first_key * item.value_stride;
    pack_panels(buffers.key_transposed, key, item.key_stride, keys, item.head_dim);
    pack_panels(buffers.value_transposed, value, item.value_stride, keys, item.head_dim);
    pack_natural(buffers.key, width, key, item.key_stride, keys, item.head_dim);
    for (std::int64_t row = 0; row < item.queries; row += kBackwardRows<T>) {
      backward_rows<T>(item, buffers, {first_key, keys, row, smaller(item.queries - row, kBackwardRows<T>)});
    }
    for (std::int64_t k = 0; k < keys; ++k) {
      write_row(static_cast<T*>(item.dkey) + (first_key + k) * item.dkey_stride, buffers.dkey + k * width, item.scale, item.head_dim);
      write_row(static_cast<T*>(item.dvalue) + (first_key + k) * item.dvalue_stride, buffers.dvalue + k * width, 1.0F, item.head_dim);
    }
  }
  for (std::int64_t q = 0; q < item.queries; ++q) {
    write_row(static_cast<T*>(item.dquery) + q * item.dquery_stride, buffers.dquery + q * width, item.scale, item.head_dim);
  }
}

}  // namespace
}  // namespace flashbert::cpu
