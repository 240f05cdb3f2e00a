#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/estimate.h"

namespace flashbert::reference {

using testing::Sum;

struct EmbeddingIds {
  std::vector<std::int32_t> token, position, segment;
};
template <class Real>
struct EmbeddingTables {
  std::vector<Real> word, position, segment;
};

/// z[r] = word[token[r]] + position[position[r]] + segment[segment[r]].
template <class Real>
std::vector<Real> embeddings_sum(const EmbeddingIds& ids, const EmbeddingTables<Real>& tables, std::size_t hidden) {
  std::vector<Real> z(ids.token.size() * hidden);
  for (std::size_t r = 0; r < ids.token.size(); ++r) {
    for (std::size_t c = 0; c < hidden; ++c) {
      const auto at = [&](std::int32_t id) { return static_cast<std::size_t>(id) * hidden + c; };
      z[r * hidden + c] = tables.word[at(ids.token[r])] + tables.position[at(ids.position[r])] + tables.segment[at(ids.segment[r])];
    }
  }
  return z;
}

/// old[id] + the sum of dz[r] over the rows r with that id.
template <class Real>
std::vector<Real> embedding_gradient(const std::vector<Real>& old, const std::vector<Real>& dz, const std::vector<std::int32_t>& ids,
                                     std::size_t hidden) {
  std::vector<Sum<Real>> sums(old.size());
  for (std::size_t i = 0; i < old.size(); ++i) sums[i].add(old[i]);
  for (std::size_t r = 0; r < ids.size(); ++r) {
    for (std::size_t c = 0; c < hidden; ++c) sums[static_cast<std::size_t>(ids[r]) * hidden + c].add(dz[r * hidden + c]);
  }
  std::vector<Real> table;
  for (const Sum<Real>& sum : sums) table.push_back(sum.total());
  return table;
}

}  // namespace flashbert::reference
