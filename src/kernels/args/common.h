#pragma once

#include <cstdint>

#include "core/rounding.h"
#include "core/tensor.h"

namespace flashbert {

/// Whether a result replaces what the output holds or is added to it.
enum class Accumulate { kOverwrite, kAdd };

/// Row counts of a batch are rounded up to a multiple of this; the rows past the true count are the tail: indices -1, activations
/// finite, gradients exactly 0. Every op keeps that: a zero gradient tail in gives a zero gradient tail out.
inline constexpr std::int64_t kRowBucket = 32;
constexpr std::int64_t bucket_rows(std::int64_t rows) { return round_up(rows, kRowBucket); }

/// Where the rows of an activation come from, for dropout counters: sequence of each row (T) i32, -1 in the tail; position of each
/// row in its sequence (T) i32; running sample index of each sequence (B) u64, at least one where
/// there are rows.
struct RowOrigin {
  ConstTensor sequence, position, sample_index;
};

/// 32-bit words of keep bits for `columns` decisions: bit c % 32 of word c / 32 is 1 where kept.
constexpr std::int64_t keep_words(std::int64_t columns) { return ceil_div(columns, 32); }

/// Scalars of one micro-batch, in device memory (ConstTensor of f32 with kStepScalars elements), so that a captured graph replays
/// unchanged.
enum StepScalar : std::int64_t {
  kMlmScale = 0,  ///< d loss / d (sum of masked-LM nll): 1 / masked tokens of the global batch
  kNspScale,      ///< d loss / d (sum of next-sentence nll)
  kStepScalars
};

}  // namespace flashbert
