#pragma once

#include "kernels/args/common.h"
#include "kernels/formulas.h"

namespace flashbert {

/// z = word[token_id] + position[position_id] + segment[segment_id]; y = dropout(LayerNorm(z)).
/// Tables (V, H), (S, H), (types, H) and z, y (T, H): f32|bf16, all the same; gamma, beta (H) f32; mean, rstd (T) f32; ids (T) i32.
/// z may be absent (evaluation); y and z alias neither each other nor a table. Tail rows have ids 0 and give finite values, undropped.
/// keep_bits as in DropoutAddLayerNormForward. Ids are trusted: the loader has checked them against the tables.
struct EmbeddingsForward {
  Tensor y, z, mean, rstd, keep_bits;
  ConstTensor token_ids, position_ids, segment_ids;
  ConstTensor word, position, segment, gamma, beta;
  RowOrigin origin;
  Dropout dropout;
  float eps = kBertLayerNormEps;
};

/// dz (T, H) = gradient at z; dgamma, dbeta as in DropoutAddLayerNormBackward. dz may alias dy, not z.
struct EmbeddingsBackward {
  Tensor dz, dgamma, dbeta;
  ConstTensor dy, z, mean, rstd, gamma, keep_bits;
  Dropout dropout;
  Accumulate accumulate = Accumulate::kAdd;
};

/// dtable[ids[r]] += sum over k in [starts[r], starts[r + 1]) of dz[order[k]], in that order; rows of the table that no run names
/// are untouched. dtable (V, H) f32; dz (T, H) f32|bf16; order (T), starts (capacity + 1), ids (capacity) i32; runs (1) i32 holds
/// the number of runs, at most capacity, in device memory; the lists past it are not read. Deterministic: each table row is owned by one
/// run. Long runs are summed in fixed blocks.
struct EmbeddingGradient {
  Tensor dtable;
  ConstTensor dz, order, starts, ids, runs;
};

}  // namespace flashbert
