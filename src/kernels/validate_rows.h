#pragma once

#include "kernels/args/common.h"
#include "kernels/formulas.h"
#include "kernels/validate.h"

namespace flashbert {

// Checks that the operations over rows of activations share.

/// (T, H) of the op's type, H a multiple of 8; returns nothing, throws.
inline void check_rows(const ArgumentCheck& check, const char* name, const ConstTensor& x) {
  check.matrix(name, x);
  check.that(x.extent(1) % 8 == 0 && x.extent(1) > 0, name, "has a hidden size that is not a positive multiple of 8");
}

struct NormArguments {
  ConstTensor mean, rstd, gamma;
};
inline void check_norm(const ArgumentCheck& check, const Shape& rows, const NormArguments& a) {
  check.dense("mean", a.mean, Dtype::kF32, {rows[0]});
  check.dense("rstd", a.rstd, Dtype::kF32, {rows[0]});
  check.dense("gamma", a.gamma, Dtype::kF32, {rows[1]});
}

inline void check_row_keep_bits(const ArgumentCheck& check, const Shape& rows, const Dropout& dropout, const ConstTensor& keep_bits) {
  if (dropout.active()) check.tensor("keep_bits", keep_bits, Dtype::kU32, {rows[0], keep_words(rows[1])});
}

inline void check_origin(const ArgumentCheck& check, const Shape& rows, const Dropout& dropout, const RowOrigin& origin) {
  if (!dropout.active()) return;
  check.dense("origin.sequence", origin.sequence, Dtype::kI32, {rows[0]});
  check.dense("origin.position", origin.position, Dtype::kI32, {rows[0]});
  check.list("origin.sample_index", origin.sample_index, Dtype::kU64);
  check.that(rows[0] == 0 || origin.sample_index.extent(0) > 0, "origin.sample_index", "is empty; it needs an entry for each sequence");
}

}  // namespace flashbert
