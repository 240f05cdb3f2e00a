#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "op_test.h"
#include "reference/attention.h"

namespace flashbert::testing {

/// Queries and keys of each sequence.
struct Lengths {
  std::vector<std::int32_t> queries, keys;
};

struct AttentionSetup {
  Lengths lengths;
  std::size_t heads = 1, head_dim = 64;
  Dropout dropout;
  double spread = 1.5;  ///< of queries and keys: the largest magnitude
  std::size_t tail = 5;
};

/// Inputs of one attention, in values of the element type; tail rows hold NaN, which nothing may read.
struct AttentionCase {
  reference::AttentionBatch batch;
  std::vector<double> query, key, value, dout;

  AttentionCase(const AttentionSetup& setup, Dtype dtype, std::uint64_t seed) {
    batch.heads = setup.heads;
    batch.head_dim = setup.head_dim;
    batch.cu_queries = {0};
    batch.cu_keys = {0};
    batch.scale = rounded(1.0 / std::sqrt(static_cast<double>(setup.head_dim)), Dtype::kF32);
    batch.dropout = setup.dropout;
    for (std::size_t s = 0; s < setup.lengths.queries.size(); ++s) {
      const std::int32_t queries = setup.lengths.queries[s];
      batch.cu_queries.push_back(batch.cu_queries.back() + queries);
      batch.cu_keys.push_back(batch.cu_keys.back() + setup.lengths.keys[s]);
      // Fewer queries than keys: rows picked from the sequence, as in the last layer.
      const std::int32_t step = queries > 0 ? std::max(1, setup.lengths.keys[s] / queries) : 1;
      for (std::int32_t q = 0; q < queries; ++q) batch.query_position.push_back(q * step);
      batch.sample_index.push_back((s % 2 == 1 ? std::uint64_t{1} << 33 : 0) + 5 + s);
    }
    batch.query_rows = static_cast<std::size_t>(batch.cu_queries.back()) + setup.tail;
    batch.key_rows = static_cast<std::size_t>(batch.cu_keys.back()) + setup.tail;
    batch.query_position.resize(batch.query_rows, 0);
    RandomValues random(seed);
    const auto row = static_cast<std::int64_t>(batch.heads * batch.head_dim);
    query = with_tail(random.values(batch.cu_queries.back() * row, dtype, setup.spread), batch.query_rows);
    key = with_tail(random.values(batch.cu_keys.back() * row, dtype, setup.spread), batch.key_rows);
    value = with_tail(random.values(batch.cu_keys.back() * row, dtype), batch.key_rows);
    dout = with_tail(random.values(batch.cu_queries.back() * row, dtype), batch.query_rows);
  }

  [[nodiscard]] Shape shape(std::size_t rows) const { return {as_extent(rows), as_extent(batch.heads), as_extent(batch.head_dim)}; }
  /// One word more than the longest sequence needs, as a plan for longer ones gives.
  [[nodiscard]] std::int64_t words() const {
    std::int64_t longest = 0;
    for (std::size_t s = 0; s < batch.sequences(); ++s) {
      longest = std::max<std::int64_t>(longest, batch.cu_keys[s + 1] - batch.cu_keys[s]);
    }
    return keep_words(longest) + 1;
  }

 private:
  [[nodiscard]] std::vector<double> with_tail(std::vector<double> values, std::size_t rows) const {
    values.resize(rows * batch.heads * batch.head_dim, std::numeric_limits<double>::quiet_NaN());
    return values;
  }
};

/// The tensors of one attention on a device, every output poisoned.
class AttentionRun {
 public:
  AttentionRun(const TestDevice& device, Dtype dtype, const AttentionCase& c, RowGap gap = {})
      : query(device, dtype, c.shape(c.batch.query_rows), c.query, gap),
        key(device, dtype, c.shape(c.batch.key_rows), c.key, gap),
        value(device, dtype, c.shape(c.batch.key_rows), c.value, gap),
        dout(device, dtype, c.shape(c.batch.query_rows), c.dout, gap),
        out(device, dtype, c.shape(c.batch.query_rows), gap),
        dquery(device, dtype, c.shape(c.batch.query_rows), gap),
        dkey(device, dtype, c.shape(c.batch.key_rows), gap),
        dvalue(device, dtype, c.shape(c.batch.key_rows), gap),
        lse(device, Dtype::kF32, {as_extent(c.batch.heads), as_extent(c.batch.query_rows)}, gap),
        keep(device, Dtype::kU32, {as_extent(c.batch.query_rows), as_extent(c.batch.heads), c.words()}),
        cu_queries(device, Dtype::kI32, {as_extent(c.batch.cu_queries.size())}, doubles(c.batch.cu_queries)),
        cu_keys(device, Dtype::kI32, {as_extent(c.batch.cu_keys.size())}, doubles(c.batch.cu_keys)),
        position(device, Dtype::kI32, {as_extent(c.batch.query_position.size())}, doubles(c.batch.query_position)),
        samples(device, c.batch.sample_index),
        ops_(device.ops()),
        scale_(static_cast<float>(c.batch.scale)),
        dropout_(c.batch.dropout) {}

  [[nodiscard]] AttentionInputs inputs() const {
    return {.query = query,
            .key = key,
            .value = value,
            .cu_queries = cu_queries,
            .cu_keys = cu_keys,
            .query_position = position,
            .sample_index = samples,
            .scale = scale_,
            .dropout = dropout_};
  }
  [[nodiscard]] AttentionForward forward_arguments() const {
    return {.out = out, .lse = lse, .keep_bits = dropout_.active() ? keep.view() : Tensor(), .inputs = inputs()};
  }
  [[nodiscard]] AttentionBackward backward_arguments() const {
    return {.dquery = dquery,
            .dkey = dkey,
            .dvalue = dvalue,
            .dout = dout,
            .out = out,
            .lse = lse,
            .keep_bits = dropout_.active() ? ConstTensor(keep) : ConstTensor(),
            .inputs = inputs()};
  }
  void forward() const { ops_.attention_forward(forward_arguments()); }
  void backward() const { ops_.attention_backward(backward_arguments()); }

  DeviceTensor query, key, value, dout, out, dquery, dkey, dvalue, lse, keep, cu_queries, cu_keys, position;
  SampleIndices samples;

 private:
  static std::vector<double> doubles(const std::vector<std::int32_t>& integers) { return {integers.begin(), integers.end()}; }

  Ops& ops_;
  float scale_;
  Dropout dropout_;
};

}  // namespace flashbert::testing
