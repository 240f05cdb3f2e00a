#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/arena.h"
#include "kernels/args/common.h"
#include "model/bert_config.h"
#include "model/row_capacity.h"

namespace flashbert {

/// What a part of the model is built from: sizes, and the plan in which it books what its forward leaves for its backward. A part keeps
/// the BufferId alone; a pass resolves it (Pass::memory). Row counts are the most of a micro-batch and are rounded up to their bucket.
struct ActivationPlan {
  const BertConfig& config;
  const RowCapacity& capacity;
  Dtype compute;
  ArenaPlan& arena;

  /// (rows, columns) of the compute dtype.
  BufferId matrix(std::string name, std::int64_t rows, std::int64_t columns) const {
    return arena.book("activations", std::move(name), compute, {bucket_rows(rows), columns});
  }
  /// (rows) f32: one number a row, as LayerNorm keeps them.
  BufferId row_statistic(std::string name, std::int64_t rows) const {
    return arena.book("activations", std::move(name), Dtype::kF32, {bucket_rows(rows)});
  }
  /// (rows, keep_words(columns)) u32; books nothing where nothing is ever dropped.
  BufferId keep_bits(std::string name, std::int64_t rows, std::int64_t columns, float rate) const {
    if (!(rate > 0.0F)) return {};
    return arena.book("activations", std::move(name), Dtype::kU32, {bucket_rows(rows), keep_words(columns)});
  }
};

}  // namespace flashbert
