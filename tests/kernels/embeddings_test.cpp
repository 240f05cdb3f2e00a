#include "reference/embeddings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "op_test.h"
#include "reference/layer_norm.h"

namespace flashbert {
namespace {

using reference::EmbeddingIds;
using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::SampleIndices;
using testing::TestDevice;
using Values = std::vector<double>;

constexpr Dropout kDropout{.rate = 0.1F, .seed = 99, .layer = 0, .site = DropoutSite::kEmbeddings};
constexpr std::int32_t kVocab = 50;
constexpr std::int32_t kPositions = 40;

struct EmbeddingCase {
  std::size_t rows, hidden;
  EmbeddingIds ids;
  reference::EmbeddingTables<double> tables;
  Values gamma, beta, dy;
  reference::RowOrigins origins;
  EmbeddingCase(std::size_t row_count, std::size_t hidden_size, Dtype dtype) : rows(row_count), hidden(hidden_size) {
    testing::RandomValues random(301);
    const std::int64_t width = as_extent(hidden);
    tables = {random.values(kVocab * width, dtype), random.values(kPositions * width, dtype), random.values(2 * width, dtype)};
    gamma = random.values(width, Dtype::kF32);
    beta = random.values(width, Dtype::kF32);
    dy = random.values(as_extent(rows) * width, dtype);
    origins.sample_index = {3, 4};
    for (std::size_t row = 0; row < rows; ++row) {
      ids.token.push_back(row % 4 == 0 ? 7 : random.below(kVocab));
      ids.position.push_back(static_cast<std::int32_t>(row) % kPositions);
      ids.segment.push_back(random.below(2));
      origins.sequence.push_back(static_cast<std::int32_t>(row % 2));
      origins.position.push_back(ids.position.back());
    }
  }
  [[nodiscard]] Shape shape() const { return {as_extent(rows), as_extent(hidden)}; }
  [[nodiscard]] Shape table_shape(std::int64_t entries) const { return {entries, as_extent(hidden)}; }
  [[nodiscard]] Shape keep_shape() const { return {as_extent(rows), keep_words(as_extent(hidden))}; }
};

/// Rows grouped by id, as the loader does for gradients.
struct IdRuns {
  std::vector<std::int32_t> order, starts, ids;
  IdRuns(const std::vector<std::int32_t>& of, std::size_t capacity) {
    for (std::size_t row = 0; row < of.size(); ++row) order.push_back(static_cast<std::int32_t>(row));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return of[static_cast<std::size_t>(a)] < of[static_cast<std::size_t>(b)]; });
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::int32_t id = of[static_cast<std::size_t>(order[k])];
      if (!ids.empty() && ids.back() == id) continue;
      ids.push_back(id);
      starts.push_back(static_cast<std::int32_t>(k));
    }
    runs = static_cast<std::int32_t>(ids.size());
    starts.push_back(static_cast<std::int32_t>(order.size()));
    // Past the runs the lists may hold anything.
    starts.resize(capacity + 1, -1);
    ids.resize(capacity, -1);
  }
  std::int32_t runs = 0;
};

class EmbeddingsOp : public testing::OpTest {};

TEST_P(EmbeddingsOp, ForwardMatchesReferenceAndMask) {
  for (const auto& [rows, hidden] : {std::pair<std::size_t, std::size_t>{1, 8}, {0, 16}, {31, 128}, {70, 40}}) {
    for (const Dropout& dropout : {Dropout{}, kDropout}) {
      const EmbeddingCase c(rows, hidden, dtype());
      const DeviceTensor word = typed(c.table_shape(kVocab), c.tables.word);
      const DeviceTensor position = typed(c.table_shape(kPositions), c.tables.position);
      const DeviceTensor segment = typed(c.table_shape(2), c.tables.segment);
      const DeviceTensor gamma = f32({as_extent(hidden)}, c.gamma);
      const DeviceTensor beta = f32({as_extent(hidden)}, c.beta);
      const DeviceTensor token_ids = i32(c.ids.token);
      const DeviceTensor position_ids = i32(c.ids.position);
      const DeviceTensor segment_ids = i32(c.ids.segment);
      const DeviceTensor sequence = i32(c.origins.sequence);
      const DeviceTensor row_position = i32(c.origins.position);
      const SampleIndices samples(device(), c.origins.sample_index);
      const DeviceTensor y = empty(dtype(), c.shape());
      const DeviceTensor z = empty(dtype(), c.shape());
      const DeviceTensor mean = empty(Dtype::kF32, {as_extent(rows)});
      const DeviceTensor rstd = empty(Dtype::kF32, {as_extent(rows)});
      const DeviceTensor keep = empty(Dtype::kU32, c.keep_shape());
      EmbeddingsForward args{.y = y,
                             .z = z,
                             .mean = mean,
                             .rstd = rstd,
                             .keep_bits = dropout.active() ? keep.view() : Tensor(),
                             .token_ids = token_ids,
                             .position_ids = position_ids,
                             .segment_ids = segment_ids,
                             .word = word,
                             .position = position,
                             .segment = segment,
                             .gamma = gamma,
                             .beta = beta,
                             .origin = {sequence, row_position, samples},
                             .dropout = dropout};
      ops().embeddings_forward(args);
      const std::vector<Estimate> z_want =
          reference::embeddings_sum<Estimate>(c.ids, {exact(c.tables.word), exact(c.tables.position), exact(c.tables.segment)}, hidden);
      const auto norm = reference::layer_norm_forward({rows, hidden}, z_want, exact(c.gamma), exact(c.beta), reference::kNormEps);
      const Values mask = reference::hidden_mask(dropout, c.origins, hidden);
      testing::expect_close(z.values(), testing::stored(z_want, dtype()), "z");
      testing::expect_close(y.values(), testing::stored(reference::masked(norm.y, mask), dtype()), "y");
      testing::expect_close(mean.values(), norm.mean, "mean");
      testing::expect_close(rstd.values(), testing::stored(norm.rstd, Dtype::kF32), "rstd");
      if (dropout.active()) {
        EXPECT_EQ(keep.values(), testing::keep_bits_of(mask, hidden));
      }
      // Evaluation keeps no z.
      const DeviceTensor y_again = empty(dtype(), c.shape());
      args.y = y_again;
      args.z = {};
      ops().embeddings_forward(args);
      EXPECT_TRUE(y_again.bytes() == y.bytes());
    }
  }
}

TEST_P(EmbeddingsOp, BackwardMatchesReference) {
  for (const bool aliased : {false, true}) {
    const EmbeddingCase c(70, 40, dtype());
    const Values z = testing::rounded(reference::embeddings_sum(c.ids, c.tables, c.hidden), dtype());
    const auto forward = reference::layer_norm_forward({c.rows, c.hidden}, z, c.gamma, c.beta, reference::kNormEps);
    const Values mean = testing::rounded(forward.mean, Dtype::kF32);
    const Values rstd = testing::rounded(forward.rstd, Dtype::kF32);
    const Values mask = reference::hidden_mask(kDropout, c.origins, c.hidden);
    const DeviceTensor dy = typed(c.shape(), c.dy);
    const DeviceTensor own_dz = empty(dtype(), c.shape());
    const DeviceTensor z_device = typed(c.shape(), z);
    const DeviceTensor mean_device = f32({as_extent(c.rows)}, mean);
    const DeviceTensor rstd_device = f32({as_extent(c.rows)}, rstd);
    const DeviceTensor gamma = f32({as_extent(c.hidden)}, c.gamma);
    const DeviceTensor dgamma = f32({as_extent(c.hidden)}, c.beta);
    const DeviceTensor dbeta = f32({as_extent(c.hidden)}, c.gamma);
    const DeviceTensor keep(device(), Dtype::kU32, c.keep_shape(), testing::keep_bits_of(mask, c.hidden));
    ops().embeddings_backward({.dz = aliased ? dy.view() : own_dz.view(),
                               .dgamma = dgamma,
                               .dbeta = dbeta,
                               .dy = dy,
                               .z = z_device,
                               .mean = mean_device,
                               .rstd = rstd_device,
                               .gamma = gamma,
                               .keep_bits = keep,
                               .dropout = kDropout,
                               .accumulate = Accumulate::kAdd});
    auto want = reference::layer_norm_backward<Estimate>({c.rows, c.hidden}, reference::masked(exact(c.dy), mask),
                                                         {exact(z), exact(mean), exact(rstd), exact(c.gamma)});
    for (std::size_t i = 0; i < c.hidden; ++i) {
      want.dgamma[i] = want.dgamma[i] + Estimate(c.beta[i]);
      want.dbeta[i] = want.dbeta[i] + Estimate(c.gamma[i]);
    }
    testing::expect_close((aliased ? dy : own_dz).values(), testing::stored(want.dz, dtype()), "dz");
    testing::expect_close(dgamma.values(), want.dgamma, "dgamma");
    testing::expect_close(dbeta.values(), want.dbeta, "dbeta");
  }
}

TEST_P(EmbeddingsOp, GradientMatchesReferenceAndLeavesOtherRowsAlone) {
  for (const auto& [rows, hidden] : {std::pair<std::size_t, std::size_t>{1, 8}, {0, 16}, {31, 128}, {700, 40}}) {
    const EmbeddingCase c(rows, hidden, dtype());
    testing::RandomValues random(302);
    for (const auto& [entries, list] : {std::pair{kVocab, c.ids.token}, std::pair{2, c.ids.segment}}) {
      const Values old = random.values(entries * as_extent(hidden), Dtype::kF32);
      const IdRuns runs(list, rows + 3);
      const DeviceTensor dtable = f32(c.table_shape(entries), old);
      const DeviceTensor dz = typed(c.shape(), c.dy);
      const DeviceTensor order = i32(runs.order);
      const DeviceTensor starts = i32(runs.starts);
      const DeviceTensor ids = i32(runs.ids);
      const DeviceTensor count = i32({runs.runs});
      ops().embedding_gradient({.dtable = dtable, .dz = dz, .order = order, .starts = starts, .ids = ids, .runs = count});
      const auto want = reference::embedding_gradient(exact(old), exact(c.dy), list, hidden);
      testing::expect_close(dtable.values(), want, fmt::format("{}x{} {} entries", rows, hidden, entries));
      const Values got = dtable.values();
      for (std::int32_t id = 0; id < entries; ++id) {
        if (std::find(list.begin(), list.end(), id) != list.end()) continue;
        const std::size_t row = static_cast<std::size_t>(id) * hidden;
        for (std::size_t i = row; i < row + hidden; ++i) ASSERT_EQ(got[i], old[i]) << id;
      }
    }
  }
}

TEST_P(EmbeddingsOp, GradientCountsEveryRowOfRunsOfAnyLength) {
  // Sums of ones are exact in any order. Around the length from which a run is cut into slices, and well above.
  constexpr std::int64_t kHidden = 72;
  const std::vector<std::int32_t> lengths = {1, 2, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 300};
  std::vector<std::int32_t> order;
  std::vector<std::int32_t> starts = {0};
  std::vector<std::int32_t> run_ids;
  Values want;
  for (std::size_t run = 0; run < lengths.size(); ++run) {
    for (std::int32_t i = 0; i < lengths[run]; ++i) order.push_back(static_cast<std::int32_t>(order.size()));
    starts.push_back(static_cast<std::int32_t>(order.size()));
    run_ids.push_back(static_cast<std::int32_t>(run));
    want.insert(want.end(), kHidden, 5.0 + lengths[run]);
  }
  const auto rows = as_extent(order.size());
  const auto entries = as_extent(lengths.size());
  const DeviceTensor dtable = f32({entries, kHidden}, Values(want.size(), 5.0));
  const DeviceTensor dz = typed({rows, kHidden}, Values(order.size() * kHidden, 1.0));
  const DeviceTensor order_on = i32(order);
  const DeviceTensor starts_on = i32(starts);
  const DeviceTensor ids_on = i32(run_ids);
  const DeviceTensor count = i32({static_cast<std::int32_t>(lengths.size())});
  ops().embedding_gradient({.dtable = dtable, .dz = dz, .order = order_on, .starts = starts_on, .ids = ids_on, .runs = count});
  EXPECT_EQ(dtable.values(), want);
}

TEST_P(EmbeddingsOp, GradientIsBitEqualForAnyThreadCount) {
  const Dtype type = dtype();
  const EmbeddingCase c(700, 136, type);
  testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
    std::vector<std::byte> bytes;
    for (const auto& [entries, list] : {std::pair{kVocab, c.ids.token}, std::pair{2, c.ids.segment}}) {
      const IdRuns runs(list, c.rows);
      const DeviceTensor dtable(on, Dtype::kF32, c.table_shape(entries), Values(static_cast<std::size_t>(entries) * c.hidden, 0.125));
      const DeviceTensor dz(on, type, c.shape(), c.dy);
      const DeviceTensor order = make_i32(on, runs.order);
      const DeviceTensor starts = make_i32(on, runs.starts);
      const DeviceTensor ids = make_i32(on, runs.ids);
      const DeviceTensor count = make_i32(on, {runs.runs});
      on.ops().embedding_gradient({.dtable = dtable, .dz = dz, .order = order, .starts = starts, .ids = ids, .runs = count});
      testing::append(bytes, dtable);
    }
    return bytes;
  });
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(EmbeddingsOp);

}  // namespace
}  // namespace flashbert
