// What a layer relies on when it is given a set of rows: it may be the tokens or the head rows, and both tell the same of a token.
#include <gtest/gtest.h>

#include "model_fixture.h"
#include "train/batch_slots.h"

namespace flashbert::testing {
namespace {

class BatchViewTest : public ::testing::Test {
 protected:
  static constexpr RowCapacity kCapacity = {.sequences = 4, .tokens = 4 * 37, .masked = 4 * 8, .seq_len = 37};

  BatchViewTest() {
    packed_.clear();
    for (const OwnedSample& sample : random_samples({37, 5, 18}, 71, 100)) packed_.append(sample.view(), sample.index);
    packed_.finish();
    ArenaPlan plan;
    slots_ = std::make_unique<BatchSlots>(BatchLayout(kCapacity, model_.engine().model().config(), model_.ops()), plan);
    images_ = std::make_unique<Arena>(plan, model_.ops().context());
    slots_->bind(*images_, model_.ops().context());
    view_ = slots_->upload({.packed = packed_}).view;
  }
  static std::int32_t at(const ConstTensor& tensor, std::int64_t index) { return tensor.data<std::int32_t>()[index]; }

  ModelFixture model_{{.global_batch = 4, .micro_batch = 4, .seed = 7}};
  std::unique_ptr<BatchSlots> slots_;
  std::unique_ptr<Arena> images_;
  PackedBatch packed_;
  BatchView view_;
};

TEST_F(BatchViewTest, AHeadRowTellsWhatItsTokenTells) {
  const RowSet& rows = view_.rows(LayerRows::kHeadRows);
  ASSERT_GT(packed_.head_rows(), 3);
  ASSERT_EQ(rows.count(), bucket_rows(packed_.head_rows()));
  for (std::int64_t row = 0; row < packed_.head_rows(); ++row) {
    const std::int64_t token = at(rows.token_row, row);
    EXPECT_EQ(at(rows.sequence, row), at(view_.tokens.sequence, token)) << "head row " << row;
    EXPECT_EQ(at(rows.position, row), at(view_.tokens.position, token)) << "head row " << row;
  }
  for (std::int64_t row = packed_.head_rows(); row < rows.count(); ++row) {
    EXPECT_EQ(at(rows.sequence, row), -1);
    EXPECT_EQ(at(rows.token_row, row), -1);
  }
}

TEST_F(BatchViewTest, RowsOfASequenceLieWhereItsSumsSay) {
  for (const LayerRows which : {LayerRows::kAllTokens, LayerRows::kHeadRows}) {
    const RowSet& rows = view_.rows(which);
    ASSERT_EQ(rows.cu.extent(0), kCapacity.sequences + 1);
    EXPECT_EQ(at(rows.cu, 0), 0);
    for (std::int64_t sequence = 0; sequence < kCapacity.sequences; ++sequence) {
      for (std::int64_t row = at(rows.cu, sequence); row < at(rows.cu, sequence + 1); ++row) EXPECT_EQ(at(rows.sequence, row), sequence);
    }
    EXPECT_EQ(at(rows.cu, 3), at(rows.cu, 4)) << "the fourth sequence is not there";
  }
}

TEST_F(BatchViewTest, AllTokensNeedNoGathering) {
  const RowSet& rows = view_.rows(LayerRows::kAllTokens);
  EXPECT_EQ(rows.count(), bucket_rows(37 + 5 + 18));
  EXPECT_FALSE(rows.token_row);
}

TEST_F(BatchViewTest, DropoutCountersComeFromTheSameRows) {
  const RowSet& rows = view_.rows(LayerRows::kHeadRows);
  const RowOrigin origin = view_.origin(rows);
  EXPECT_EQ(origin.sequence.raw(), rows.sequence.raw());
  EXPECT_EQ(origin.position.raw(), rows.position.raw());
  EXPECT_EQ(origin.sample_index.raw(), view_.sample_indices.raw());
}

TEST(RowCapacity, TellsTheMostRowsOfALayer) {
  const RowCapacity capacity = {.sequences = 3, .tokens = 100, .masked = 20, .seq_len = 64};
  EXPECT_EQ(capacity.rows(LayerRows::kAllTokens), 100);
  EXPECT_EQ(capacity.rows(LayerRows::kHeadRows), 23);
}

}  // namespace
}  // namespace flashbert::testing
