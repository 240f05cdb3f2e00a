// Forward pass of one (sequence, head). For each block of keys: K transposed and V packed once; for each tile of query rows the scores,
// the online softmax (running maximum and sum), the mask, and the product with V into an f32 state that is rescaled when the maximum grows.
#pragma once

#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/attention_tiles_impl.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kForwardRows = 12;  // scores of 12 x 512 stay in the first-level cache

/// State of the online softmax of one row.
struct RowState {
  float maximum, sum;
};

/// Stores kLanes probabilities as operand A of the product with V.
template <class T>
inline void store_probabilities(void* row, std::int64_t k, VecF p) {
  if constexpr (kPairs<T>) {
#if defined(__AVX512BF16__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<Half*>(row) + k), (__m256i)_mm512_cvtneps_pbh(p));
#endif
  } else {
    store(static_cast<float*>(row) + k, p);
  }
}

/// Scores of one row become probabilities (not yet divided by the sum); returns the factor for what was accumulated before.
template <class T>
inline float softmax_row(const float* scores, std::int64_t keys, float scale, const std::uint32_t* keep, RowState& state,
                         void* probabilities) {
  VecF largest = splat(-__builtin_inff());
  std::int64_t k = 0;
  for (; k + kLanes <= keys; k += kLanes) largest = max(largest, load(scores + k));
  float maximum = max_lanes(largest);
  for (; k < keys; ++k) maximum = scores[k] > maximum ? scores[k] : maximum;
  maximum = maximum * scale > state.maximum ? maximum * scale : state.maximum;
  VecF sum = zero();
  for (k = 0; k < keys; k += kLanes) {
    VecF p = exp(fma(load(scores + k), splat(scale), splat(-maximum)));
    if (k + kLanes > keys) p = keep_lanes(p, (1U << (keys - k)) - 1U);
    sum = sum + p;
    store_probabilities<T>(probabilities, k, keep == nullptr ? p : keep_lanes(p, keep_at(keep, k)));
  }
  alignas(64) float factor[kLanes];
  store(factor, exp(splat(state.maximum - maximum)));
  state.sum = state.sum * factor[0] + sum_lanes(sum);
  state.maximum = maximum;
  return factor[0];
}

template <class T>
struct ForwardBuffers {
  Word* key_transposed;
  Word* value;
  float* accumulated;  ///< (queries, width)
  RowState* state;     ///< (queries)
  float* scores;       ///< (kForwardRows, kKeyBlock)
  float* probabilities;
  float* operand;
};

template <class T>
inline void forward_rows(const AttentionItem& item, const ForwardBuffers<T>& buffers, std::int64_t first_key, std::int64_t row,
                         std::int64_t rows) {
  const std::int64_t keys = item.keys - first_key < kKeyBlock ? item.keys - first_key : kKeyBlock;
  const std::int64_t padded_keys = round_up(keys, kLanes);
  const std::int64_t width = round_up(item.head_dim, kLanes);
  const T* const query = static_cast<const T*>(item.query) + row * item.query_stride;
  multiply<kPairs<T>>(as_operand(query, item.query_stride, rows, item.head_dim, buffers.operand), {buffers.key_transposed, kKeyBlock},
                      {buffers.scores, kKeyBlock}, rows, padded_keys, item.head_dim / kPerWord<T>, Start::kZero);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::uint32_t* keep = nullptr;
    if (item.threshold > 0) {
      std::uint32_t* const keep_row = item.keep + (row + r) * item.keep_stride;
      if (first_key == 0) dropout_words(item, static_cast<std::uint32_t>(item.query_position[row + r]), item.keys, keep_row);
      keep = keep_row + first_key / 32;
    }
    const float factor = softmax_row<T>(buffers.scores + r * kKeyBlock, keys, item.scale, keep, buffers.state[row + r],
                                        buffers.probabilities + r * kKeyBlock);
    if (first_key == 0) continue;
    float* const accumulated = buffers.accumulated + (row + r) * width;
    for (std::int64_t c = 0; c < width; c += kLanes) store(accumulated + c, load(accumulated + c) * splat(factor));
  }
  multiply<kPairs<T>>({reinterpret_cast<const Word*>(buffers.probabilities), kKeyBlock, 1}, {buffers.value, width},
                      {buffers.accumulated + row * width, width}, rows, width, (keys + kPerWord<T> - 1) / kPerWord<T>,
                      first_key == 0 ? Start::kZero : Start::kResult);
  if (first_key + keys < item.keys) return;
  for (std::int64_t r = row; r < row + rows; ++r) {
    const RowState& state = buffers.state[r];
    write_row(static_cast<T*>(item.out) + r * item.out_stride, buffers.accumulated + r * width, item.keep_scale / state.sum, item.head_dim);
    item.lse[r * item.lse_stride] = state.maximum + static_cast<float>(__builtin_log(static_cast<double>(state.sum)));
  }
}

template <class T>
void forward_item(const AttentionItem& item, void* scratch) {
  const std::int64_t width = round_up(item.head_dim, kLanes);
  ScratchCutter cut(scratch);
  ForwardBuffers<T> buffers;
  buffers.key_transposed = cut.take<Word>(item.head_dim * kKeyBlock);
  buffers.value = cut.take<Word>(kKeyBlock * width);
  buffers.accumulated = cut.take<float>(item.queries * width);
  buffers.state = cut.take<RowState>(item.queries);
  buffers.scores = cut.take<float>(kForwardRows * kKeyBlock);
  buffers.probabilities = cut.take<float>(kForwardRows * kKeyBlock);
  buffers.operand = cut.take<float>(kForwardRows * item.head_dim);
  for (std::int64_t q = 0; q < item.queries; ++q) buffers.state[q] = {-__builtin_inff(), 0.0F};
  for (std::int64_t first_key = 0; first_key < item.keys; first_key += kKeyBlock) {
    const std::int64_t keys = item.keys - first_key < kKeyBlock ? item.keys - first_key : kKeyBlock;
    pack_transposed(buffers.key_transposed, kKeyBlock, static_cast<const T*>(item.key) + first_key * item.key_stride, item.key_stride, keys,
                    item.head_dim);
    pack_natural(buffers.value, width, static_cast<const T*>(item.value) + first_key * item.value_stride, item.value_stride, keys,
                 item.head_dim);
    for (std::int64_t row = 0; row < item.queries; row += kForwardRows) {
      const std::int64_t rows = item.queries - row < kForwardRows ? item.queries - row : kForwardRows;
      forward_rows<T>(item, buffers, first_key, row, rows);
    }
  }
}

}  // namespace
}  // namespace flashbert::cpu
