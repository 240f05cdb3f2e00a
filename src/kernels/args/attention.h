#pragma once

#include "kernels/args/common.h"
#include "kernels/formulas.h"

namespace flashbert {

/// What both passes read. query (Tq, A, D), key and value (Tk, A, D): f32 or bf16, rows may be strided (views of a packed QKV).
/// Sequence b has query rows cu_queries[b] .. cu_queries[b + 1] and key rows cu_keys[b] .. cu_keys[b + 1] (both (B + 1) i32; lengths
/// may be 0). query_position (Tq) i32: position of each query row in its sequence, for dropout counters; sample_index (B) u64.
/// D is a multiple of 8, at most 256; a sequence has at most 65,535 keys; lengths are checked where they are on the host (CPU).
struct AttentionInputs {
  ConstTensor query, key, value;
  ConstTensor cu_queries, cu_keys, query_position, sample_index;
  float scale = 0.0F;  ///< of the scores, 1 / sqrt(D)
  Dropout dropout;
};

/// P = softmax(scale Q K^T) over the keys of the row's own sequence; out = dropout(P) V.
/// out (Tq, A, D) of query's dtype; rows past the last sequence are written 0. lse (A, Tq) f32, rows may be strided: log of the sum of
/// exp of the scaled scores, +inf for a row without keys (its out is 0), 0 past the last sequence. By head first: what one head of one
/// sequence writes lies together. keep_bits (Tq, A, W) u32, W = keep_words(longest sequence the plan allows):
/// written when dropout is active, else absent. out must not alias query, key or value. No S x S matrix in memory. Bit-equal for any thread
/// count. Source: Dao, FlashAttention-2, 2023. Throws ShapeError, DtypeError.
struct AttentionForward {
  Tensor out, lse, keep_bits;
  AttentionInputs inputs;
};

/// dquery (Tq, A, D), dkey, dvalue (Tk, A, D) of query's dtype, overwritten, rows may be strided, none aliasing what
/// is read; rows past the last sequence are written 0. out, lse, keep_bits from forward; dout (Tq, A, D). Scores are computed again;
/// deterministic.
struct AttentionBackward {
  Tensor dquery, dkey, dvalue;
  ConstTensor dout, out, lse, keep_bits;
  AttentionInputs inputs;
};

}  // namespace flashbert
