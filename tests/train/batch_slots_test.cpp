#include "train/batch_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/cpu/cpu_context.h"

namespace flashbert::testing {
namespace {

constexpr RowCapacity kCapacity = {.sequences = 3, .tokens = 3 * 40, .masked = 3 * 5, .seq_len = 40};

BertConfig model() {
  BertConfig config;
  config.vocab = 50;
  config.max_positions = 40;
  config.type_vocab = 2;
  return config;
}

/// `lengths` samples with distinguishable values; each has its last `masked` positions masked.
PackedBatch packed_batch(const std::vector<std::int32_t>& lengths, std::int32_t masked, std::uint64_t first_index) {
  PackedBatch batch;
  batch.clear();
  std::int32_t value = 0;
  for (const std::int32_t length : lengths) {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> segments;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> labels;
    for (std::int32_t i = 0; i < length; ++i) {
      ids.push_back(value++ % 50);
      segments.push_back(static_cast<std::uint8_t>(i >= length / 2));
      if (i >= length - masked) positions.push_back(i), labels.push_back(49 - i);
    }
    batch.append({ids, segments, positions, labels, length % 2}, first_index++);
  }
  batch.finish();
  return batch;
}

template <class T>
std::vector<T> values_of(const ConstTensor& tensor) {
  return {tensor.data<T>(), tensor.data<T>() + tensor.elements()};
}

/// The true values, then so many of the tail's up to the extent.
template <class T>
void expect_column(const char* name, const ConstTensor& column, std::vector<T> want, T tail, std::int64_t extent) {
  ASSERT_EQ(column.shape(), Shape{extent}) << name;
  want.resize(static_cast<std::size_t>(extent), tail);
  EXPECT_EQ(values_of<T>(column), want) << name;
}

class BatchSlotsTest : public ::testing::Test {
 protected:
  BatchSlotsTest() {
    slots_ = std::make_unique<BatchSlots>(BatchLayout(kCapacity, model(), *ops_), plan_);
    arena_ = std::make_unique<Arena>(plan_, context_);
    slots_->bind(*arena_, context_);
  }
  CpuContext context_{1};
  std::unique_ptr<Ops> ops_ = make_ops(context_);
  ArenaPlan plan_;
  std::unique_ptr<BatchSlots> slots_;
  std::unique_ptr<Arena> arena_;
};

TEST(BatchLayout, ColumnsDoNotOverlapAndHaveNamesOfTheirOwn) {
  CpuContext context(1);
  const auto ops = make_ops(context);
  const BatchLayout layout(kCapacity, model(), *ops);
  std::set<std::string_view> names;
  std::int64_t end = 0;
  for (const BatchLayout::Place& place : layout.places()) {
    EXPECT_TRUE(names.insert(place.name).second) << place.name;
    EXPECT_GE(place.offset, end) << place.name;
    EXPECT_EQ(place.offset % 256, 0) << place.name;
    end = place.offset + place.bytes;
  }
  EXPECT_GE(layout.bytes(), end);
}

TEST_F(BatchSlotsTest, EveryColumnArrivesWithItsTail) {
  const PackedBatch batch = packed_batch({7, 30}, 3, 900);
  StepScalarValues scalars{};
  for (std::size_t i = 0; i < scalars.size(); ++i) scalars[i] = 0.5F + static_cast<float>(i);
  const DeviceBatch device = slots_->upload({.packed = batch,
                                             .scalars = scalars,
                                             .loss_divisors = {3.0, 4.0},
                                             .flags = {5.0, 6.0, 7.0, 8.0},
                                             .lamb_scalars = {9.0F, 10.0F, 11.0F}});
  const BatchView& view = device.view;
  using Ids = std::vector<std::int32_t>;
  const auto i32 = [](const char* name, const ConstTensor& column, const Ids& want, std::int32_t tail, std::int64_t extent) {
    expect_column<std::int32_t>(name, column, want, tail, extent);
  };
  // 37 tokens, 8 head rows, 6 masked rows, 2 sequences: the next multiples of 32.
  i32("token_ids", view.token_ids, batch.token_ids, 0, 64);
  i32("segment_ids", view.segment_ids, batch.segment_ids, 0, 64);
  i32("positions", view.tokens.position, batch.positions, 0, 64);
  i32("sequences", view.tokens.sequence, batch.sequences_of_tokens, -1, 64);
  i32("cu_tokens", view.tokens.cu, {0, 7, 37}, 37, 4);
  expect_column<std::uint64_t>("sample_indices", view.sample_indices, {900, 901}, 0, 3);
  i32("head_token_rows", view.head_rows.token_row, {0, 4, 5, 6, 7, 34, 35, 36}, -1, 32);
  i32("head_positions", view.head_rows.position, {0, 4, 5, 6, 0, 27, 28, 29}, 0, 32);
  i32("head_sequences", view.head_rows.sequence, {0, 0, 0, 0, 1, 1, 1, 1}, -1, 32);
  i32("cu_head_rows", view.head_rows.cu, {0, 4, 8}, 8, 4);
  i32("mlm_head_rows", view.mlm_head_rows, {1, 2, 3, 5, 6, 7}, -1, 32);
  i32("mlm_labels", view.mlm_labels, {45, 44, 43, 22, 21, 20}, -1, 32);
  i32("cls_head_rows", view.cls_head_rows, {0, 4}, -1, 32);
  i32("nsp_labels", view.nsp_labels, {1, 0}, -1, 32);
  i32("word_runs.order", view.word_runs.order, batch.word_runs.order, 0, 64);
  i32("word_runs.starts", view.word_runs.starts, batch.word_runs.starts, 0, 51);
  i32("word_runs.ids", view.word_runs.ids, batch.word_runs.ids, 0, 50);
  i32("word_runs.runs", view.word_runs.runs, {37}, 0, 1);
  i32("position_runs.ids", view.position_runs.ids, batch.position_runs.ids, 0, 40);
  i32("position_runs.runs", view.position_runs.runs, {30}, 0, 1);
  i32("segment_runs.ids", view.segment_runs.ids, {0, 1}, 0, 2);
  i32("segment_runs.starts", view.segment_runs.starts, {0, 18, 37}, 0, 3);
  i32("segment_runs.runs", view.segment_runs.runs, {2}, 0, 1);
  expect_column<float>("step_scalars", view.step_scalars, {scalars.begin(), scalars.end()}, 0.0F, kStepScalars);
  expect_column<double>("loss_divisors", device.loss_divisors, {3, 4}, 0.0, 2);
  expect_column<float>("lamb_scalars", device.lamb_scalars, {9, 10, 11}, 0.0F, 3);
  expect_column<double>("flags", device.flags, {5, 6, 7, 8}, 0.0, 4);
}

TEST_F(BatchSlotsTest, ASmallerBatchLeavesNothingOfALargerOneInItsRows) {
  for (int i = 0; i < 2; ++i) static_cast<void>(slots_->upload({packed_batch({40, 40, 40}, 5, 0)}));
  for (int i = 0; i < 2; ++i) {
    const PackedBatch small = packed_batch({33}, 1, 7);
    const BatchView view = slots_->upload({small}).view;
    expect_column<std::int32_t>("sequences", view.tokens.sequence, std::vector<std::int32_t>(33, 0), -1, 64);
    expect_column<std::int32_t>("cu_tokens", view.tokens.cu, {0, 33}, 33, 4);
    expect_column<std::int32_t>("mlm_labels", view.mlm_labels, small.mlm_labels, -1, 32);
    expect_column<std::uint64_t>("sample_indices", view.sample_indices, {7}, 0, 3);
  }
}

TEST_F(BatchSlotsTest, TheBatchBeforeStaysWhileTheNextArrives) {
  const PackedBatch first = packed_batch({5, 9}, 2, 0);
  const BatchView before = slots_->upload({first}).view;
  static_cast<void>(slots_->upload({packed_batch({40}, 5, 50)}));
  expect_column<std::int32_t>("token_ids", before.token_ids, first.token_ids, 0, 32);
}

TEST_F(BatchSlotsTest, ABatchAboveTheCapacityIsRefused) {
  const auto message = [&](const PackedBatch& batch) {
    try {
      static_cast<void>(slots_->upload({batch}));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(message(packed_batch({40, 40, 40, 1}, 1, 0)), ::testing::HasSubstr("in 4 sequences; 120 tokens in 3 sequences were planned"));
  EXPECT_THAT(message(packed_batch({40, 40, 41}, 1, 0)), ::testing::HasSubstr("121 tokens"));
  EXPECT_THAT(message(packed_batch({40, 40, 40}, 6, 0)),
              ::testing::HasSubstr("18 masked positions; 15 were planned: raise max-predictions above 5"));
}

}  // namespace
}  // namespace flashbert::testing
