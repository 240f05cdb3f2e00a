// Forward pass of one (sequence, head). For each block of keys: K transposed and V packed once; for each tile of query rows the scores,
// the online softmax (running maximum and sum), the mask, and the product with V into an f32 state that is rescaled when the maximum grows.
#pragma once

#include "kernels/cpu/attention/dropout_impl.h"
#include "kernels/cpu/attention/math_impl.h"
#include "kernels/cpu/attention/pack_impl.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kForwardRows = 12;  // scores of 12 x 512 stay in the first-level cache
static_assert(kForwardRows <= kDropoutRows, "keep bits of a tile are decided in one go");
constexpr std::int64_t kScoreStride = kKeyBlock + 16;  // not a power of two: rows would share few sets of the cache

struct ForwardBuffers {
  Word* key_transposed;  ///< panels of keys
  Word* value;           ///< (key words, width)
  float* accumulated;    ///< (queries, width)
  float* maximum;        ///< (queries): largest raw score so far (scale is positive)
  float* sum;            ///< (queries): of exp(scale (score - maximum))
  float* scores;         ///< (kForwardRows, kScoreStride): scores, then probabilities in place
  float* operand;
};

/// Stores kLanes probabilities as operand A of the product with V, at or before the place their scores came from.
template <class T>
inline void store_probabilities(float* row, std::int64_t k, VecF p) {
#if defined(__AVX512BF16__)
  if constexpr (kPairs<T>) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(reinterpret_cast<Half*>(row) + k), to_halves(p));
    return;
  }
#endif
  store(row + k, p);
}

inline float largest_score(const float* scores, std::int64_t keys) {
  VecF largest = splat(-__builtin_inff());
  std::int64_t k = 0;
  for (; k + kLanes <= keys; k += kLanes) largest = max(largest, load(scores + k));
  float maximum = max_lanes(largest);
  for (; k < keys; ++k) maximum = scores[k] > maximum ? scores[k] : maximum;
  return maximum;
}

/// Scores of one row become exp(scale (score - maximum)), dropped where `keep` says; returns the sum before dropping. The exponent is in
/// powers of two: one product and one sum.
template <class T, bool kDrops>
inline float exponentials(float* scores, std::int64_t keys, float scale_log2, float maximum, const std::uint32_t* keep) {
  const VecF factor = splat(scale_log2);
  const VecF shift = splat(-maximum * scale_log2);
  VecF sum = zero();
  for (std::int64_t k = 0; k < keys; k += kLanes) {
    VecF p = exp2_bounded(fma(load(scores + k), factor, shift));
    if (k + kLanes > keys) p = keep_lanes(p, (1U << (keys - k)) - 1U);
    sum = sum + p;
    store_probabilities<T>(scores, k, kDrops ? keep_lanes(p, keep_at(keep, k)) : p);
  }
  return sum_lanes(sum);
}

/// What was accumulated before a larger maximum was found shrinks.
inline void rescale(const ForwardBuffers& buffers, std::int64_t row, float factor, std::int64_t width) {
  float* const accumulated = buffers.accumulated + row * width;
  for (std::int64_t c = 0; c < width; c += kLanes) store(accumulated + c, load(accumulated + c) * splat(factor));
  buffers.sum[row] *= factor;
}

template <class T>
inline void softmax_rows(const AttentionItem& item, const ForwardBuffers& buffers, std::int64_t first_key, std::int64_t keys,
                         std::int64_t row, std::int64_t rows) {
  const float scale_log2 = static_cast<float>(static_cast<double>(item.scale) * kLog2E);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* const scores = buffers.scores + r * kScoreStride;
    float maximum = largest_score(scores, keys);
    if (first_key == 0) {
      buffers.sum[row + r] = 0.0F;
    } else if (maximum > buffers.maximum[row + r]) {
      alignas(64) float factor[kLanes];
      store(factor, exp2_bounded(splat((buffers.maximum[row + r] - maximum) * scale_log2)));
      rescale(buffers, row + r, factor[0], round_up(item.head_dim, kLanes));
    } else {
      maximum = buffers.maximum[row + r];
    }
    buffers.maximum[row + r] = maximum;
    if (item.threshold > 0) {
      const std::uint32_t* const keep = item.keep + (row + r) * item.keep_stride + first_key / 32;
      buffers.sum[row + r] += exponentials<T, true>(scores, keys, scale_log2, maximum, keep);
    } else {
      buffers.sum[row + r] += exponentials<T, false>(scores, keys, scale_log2, maximum, nullptr);
    }
  }
}

template <class T>
inline void write_forward_rows(const AttentionItem& item, const ForwardBuffers& buffers, std::int64_t row, std::int64_t rows) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  alignas(64) float logs[kLanes];
  for (std::int64_t r = 0; r < rows; ++r) {
    if (r % kLanes == 0) store(logs, log_positive(load(buffers.sum + row + r)));
    const std::int64_t q = row + r;
    write_row(static_cast<T*>(item.out) + q * item.out_stride, buffers.accumulated + q * width, item.keep_scale / buffers.sum[q],
              item.head_dim);
    item.lse[q] = buffers.maximum[q] * item.scale + logs[r % kLanes];
  }
}

template <class T>
inline void forward_rows(const AttentionItem& item, const DropoutStart& start, const ForwardBuffers& buffers, std::int64_t first_key,
                         std::int64_t row, std::int64_t rows) {
  const std::int64_t keys = smaller(item.keys - first_key, kKeyBlock);
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const std::int64_t head_words = item.head_dim / kPerWord<T>;
  const T* const query = static_cast<const T*>(item.query) + row * item.query_stride;
  const OperandA query_rows = as_operand(query, item.query_stride, rows, item.head_dim, buffers.operand);
  for (std::int64_t key = 0; key < keys; key += kPanel) {
    multiply<kPairs<T>>(query_rows, {buffers.key_transposed + key * head_words, kPanel}, {buffers.scores + key, kScoreStride}, rows,
                        smaller(round_up(keys - key, kLanes), kPanel), head_words, Start::kZero);
  }
  if (item.threshold > 0) decide_rows(item, start, row, rows, first_key, keys);
  softmax_rows<T>(item, buffers, first_key, keys, row, rows);
  multiply<kPairs<T>>({reinterpret_cast<const Word*>(buffers.scores), kScoreStride, 1}, {buffers.value, width},
                      {buffers.accumulated + row * width, width}, rows, width, (keys + kPerWord<T> - 1) / kPerWord<T>,
                      first_key == 0 ? Start::kZero : Start::kResult);
  if (first_key + keys == item.keys) write_forward_rows<T>(item, buffers, row, rows);
}

template <class T>
void forward_item(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  ScratchCutter cut(scratch);
  ForwardBuffers buffers;
  buffers.key_transposed = cut.take<Word>(item.head_dim * kKeyBlock);
  buffers.value = cut.take<Word>(kKeyBlock * width);
  buffers.accumulated = cut.take<float>(item.queries * width);
  buffers.maximum = cut.take<float>(item.queries);
  buffers.sum = cut.take<float>(item.queries + kLanes);  // read in whole vectors
  buffers.scores = cut.take<float>(kForwardRows * kScoreStride);
  buffers.operand = cut.take<float>(kForwardRows * item.head_dim);
  const DropoutStart start = start_dropout(item);
  for (std::int64_t first_key = 0; first_key < item.keys; first_key += kKeyBlock) {
    const std::int64_t keys = smaller(item.keys - first_key, kKeyBlock);
    pack_panels(buffers.key_transposed, static_cast<const T*>(item.key) + first_key * item.key_stride, item.key_stride, keys,
                item.head_dim);
    pack_natural(buffers.value, width, static_cast<const T*>(item.value) + first_key * item.value_stride, item.value_stride, keys,
                 item.head_dim);
    for (std::int64_t row = 0; row < item.queries; row += kForwardRows) {
      forward_rows<T>(item, start, buffers, first_key, row, smaller(item.queries - row, kForwardRows));
    }
  }
}

}  // namespace
}  // namespace flashbert::cpu
