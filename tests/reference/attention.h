#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/dropout.h"
#include "support/estimate.h"
#include "support/random_values.h"

namespace flashbert::reference {

using testing::exponential;
using testing::logarithm;
using testing::Sum;
using testing::value_of;

/// Sequences of a packed batch; rows of query past the last cumulative count are tail rows.
struct AttentionBatch {
  std::size_t heads = 1, head_dim = 8;
  std::size_t query_rows = 0, key_rows = 0;
  std::vector<std::int32_t> cu_queries, cu_keys;
  std::vector<std::int32_t> query_position;
  std::vector<std::uint64_t> sample_index;
  double scale = 1.0;
  Dropout dropout;

  [[nodiscard]] std::size_t sequences() const { return cu_queries.size() - 1; }
  [[nodiscard]] std::size_t at(std::size_t row, std::size_t head) const { return (row * heads + head) * head_dim; }
  /// Place of a query row's log-sum-exp: (A, Tq).
  [[nodiscard]] std::size_t lse_at(std::size_t query_row, std::size_t head) const { return head * query_rows + query_row; }
  [[nodiscard]] double factor(std::size_t sequence, std::size_t head, std::size_t query_row, std::size_t key) const {
    if (drop_below(dropout) == 0) return 1.0;
    const bool kept = keeps_attention(dropout, sample_index[sequence], head, query_position[query_row], key);
    return kept ? kept_factor(dropout) : 0.0;
  }
};

template <class Real>
struct AttentionTensors {
  std::vector<Real> query, key, value;
};
template <class Real>
struct AttentionResult {
  std::vector<Real> out, lse;
};
template <class Real>
struct AttentionGradients {
  std::vector<Real> dquery, dkey, dvalue;
};

/// What a plain implementation keeps between its matrix products.
struct KeepExactly {
  template <class Real>
  Real operator()(const Real& x) const {
    return x;
  }
};
struct KeepInBf16 {
  double operator()(double x) const { return testing::rounded(x, Dtype::kBf16); }
};

/// One query row of one head: keys [begin, end) of its sequence.
struct AttentionRow {
  std::size_t sequence, head, query, begin, end;
};

/// Calls f for every row with keys, sequence by sequence.
template <class Function>
void for_attention_rows(const AttentionBatch& batch, const Function& f) {
  for (std::size_t s = 0; s < batch.sequences(); ++s) {
    for (auto q = static_cast<std::size_t>(batch.cu_queries[s]); q < static_cast<std::size_t>(batch.cu_queries[s + 1]); ++q) {
      for (std::size_t h = 0; h < batch.heads; ++h) {
        f(AttentionRow{s, h, q, static_cast<std::size_t>(batch.cu_keys[s]), static_cast<std::size_t>(batch.cu_keys[s + 1])});
      }
    }
  }
}

/// Scaled scores of a row.
template <class Real>
std::vector<Real> attention_scores(const AttentionBatch& batch, const AttentionTensors<Real>& in, const AttentionRow& row) {
  std::vector<Real> scores;
  for (std::size_t k = row.begin; k < row.end; ++k) {
    Sum<Real> sum;
    for (std::size_t d = 0; d < batch.head_dim; ++d) {
      sum.add(in.query[batch.at(row.query, row.head) + d] * in.key[batch.at(k, row.head) + d]);
    }
    scores.push_back(sum.total() * Real(batch.scale));
  }
  return scores;
}

/// out = dropout(softmax(scale Q K^T)) V and lse = log sum exp; out 0 and lse +inf for a row without keys; out 0 and lse 0 in the tail.
/// Keep is what the dropped probabilities go through before they meet V.
template <class Real, class Keep = KeepExactly>
AttentionResult<Real> attention_forward(const AttentionBatch& batch, const AttentionTensors<Real>& in, const Keep& keep = {}) {
  AttentionResult<Real> result{std::vector<Real>(batch.query_rows * batch.heads * batch.head_dim),
                               std::vector<Real>(batch.query_rows * batch.heads)};
  for_attention_rows(batch, [&](const AttentionRow& row) {
    Real& lse = result.lse[batch.lse_at(row.query, row.head)];
    lse = Real(std::numeric_limits<double>::infinity());
    if (row.begin == row.end) return;
    const std::vector<Real> scores = attention_scores(batch, in, row);
    const Real largest =
        *std::max_element(scores.begin(), scores.end(), [](const Real& a, const Real& b) { return value_of(a) < value_of(b); });
    Sum<Real> sum;
    for (const Real& score : scores) sum.add(exponential(score - largest));
    const Real total = sum.total();
    lse = largest + logarithm(total);
    std::vector<Sum<Real>> out(batch.head_dim);
    for (std::size_t k = row.begin; k < row.end; ++k) {
      const double factor = batch.factor(row.sequence, row.head, row.query, k - row.begin);
      const Real probability = keep(exponential(scores[k - row.begin] - largest) / total * Real(factor));
      for (std::size_t d = 0; d < batch.head_dim; ++d) out[d].add(probability * in.value[batch.at(k, row.head) + d]);
    }
    for (std::size_t d = 0; d < batch.head_dim; ++d) result.out[batch.at(row.query, row.head) + d] = out[d].total();
  });
  return result;
}

/// Gradients of sum(dout * out): dV = P_dropped^T dO, dP = mask (dO V^T), dS = P (dP - rowsum(dO O)) scale, dQ = dS K, dK = dS^T Q.
/// Keep is what dropped probabilities and dS go through before their products.
template <class Real, class Keep = KeepExactly>
AttentionGradients<Real> attention_backward(const AttentionBatch& batch, const AttentionTensors<Real>& in,
                                            const AttentionResult<Real>& forward, const std::vector<Real>& dout, const Keep& keep = {}) {
  std::vector<Sum<Real>> dquery(in.query.size());
  std::vector<Sum<Real>> dkey(in.key.size());
  std::vector<Sum<Real>> dvalue(in.key.size());
  for_attention_rows(batch, [&](const AttentionRow& row) {
    const std::size_t q = batch.at(row.query, row.head);
    const std::vector<Real> scores = attention_scores(batch, in, row);
    Sum<Real> output_products;
    for (std::size_t d = 0; d < batch.head_dim; ++d) output_products.add(dout[q + d] * forward.out[q + d]);
    const Real row_sum = output_products.total();
    for (std::size_t key = row.begin; key < row.end; ++key) {
      const std::size_t k = batch.at(key, row.head);
      const Real factor = batch.factor(row.sequence, row.head, row.query, key - row.begin);
      const Real probability = exponential(scores[key - row.begin] - forward.lse[batch.lse_at(row.query, row.head)]);
      const Real dropped = keep(probability * factor);
      Sum<Real> product;
      for (std::size_t d = 0; d < batch.head_dim; ++d) product.add(dout[q + d] * in.value[k + d]);
      const Real dscore = keep(probability * (product.total() * factor - row_sum) * Real(batch.scale));
      for (std::size_t d = 0; d < batch.head_dim; ++d) {
        dvalue[k + d].add(dropped * dout[q + d]);
        dquery[q + d].add(dscore * in.key[k + d]);
        dkey[k + d].add(dscore * in.query[q + d]);
      }
    }
  });
  const auto totals = [](const std::vector<Sum<Real>>& sums) {
    std::vector<Real> values;
    for (const Sum<Real>& sum : sums) values.push_back(sum.total());
    return values;
  };
  return {totals(dquery), totals(dkey), totals(dvalue)};
}

}  // namespace flashbert::reference
