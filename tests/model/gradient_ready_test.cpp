// What a reducer that works beside backward relies on: it may send a block as soon as it is told of it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "model_fixture.h"
#include "train/batch_slots.h"

namespace flashbert::testing {
namespace {

class GradientReady : public ::testing::Test {
 protected:
  static constexpr RowCapacity kCapacity = {.sequences = 3, .tokens = 3 * 37, .masked = 3 * 8, .seq_len = 37};

  GradientReady() {
    model_.set(random_weights(model_.table(), 61));
    ArenaPlan plan;
    slots_ = std::make_unique<BatchSlots>(BatchLayout(kCapacity, bert().config(), model_.ops()), plan);
    images_ = std::make_unique<Arena>(plan, model_.ops().context());
    slots_->bind(*images_, model_.ops().context());
  }

  /// Backward over three samples; tells in which order blocks were ready, and keeps each block's gradient as it was then.
  void run(Accumulate accumulate, std::uint64_t seed) {
    order_.clear();
    seen_.assign(blocks(), {});
    PackedBatch packed;
    packed.clear();
    const std::vector<OwnedSample> samples = random_samples({37, 5, 18}, seed, 100);
    for (const OwnedSample& sample : samples) packed.append(sample.view(), sample.index);
    packed.finish();
    StepScalarValues scalars{};
    scalars[kMlmScale] = 0.25F;
    scalars[kNspScale] = 0.5F;
    const BatchView view = slots_->upload({packed, scalars}).view;
    const Pass pass{.ops = model_.ops(),
                    .arena = bert().arena(),
                    .parameters = bert().parameters(),
                    .batch = view,
                    .training = true,
                    .seed = 7,
                    .accumulate = accumulate,
                    .on_gradient_ready = [this](std::size_t block) {
                      order_.push_back(block);
                      seen_.at(block) = gradient(block);
                    }};
    bert().forward(pass);
    EXPECT_TRUE(order_.empty()) << "told in forward";
    bert().backward(pass);
  }
  void fill_gradients(float value) {
    const Tensor all = bert().parameters().all_gradients();
    std::fill_n(all.data<float>(), all.elements(), value);
  }
  [[nodiscard]] std::vector<float> gradient(std::size_t block) {
    const Tensor tensor = bert().parameters().gradient(block);
    return {tensor.data<float>(), tensor.data<float>() + tensor.elements()};
  }
  /// What was seen when a block was told of is what is there after backward.
  void expect_final() {
    for (std::size_t block = 0; block < blocks(); ++block) {
      EXPECT_TRUE(seen_[block] == gradient(block)) << model_.table().blocks()[block].name << " changed after it was told of";
    }
  }
  [[nodiscard]] std::size_t blocks() const { return model_.table().blocks().size(); }
  [[nodiscard]] BertModel& bert() { return model_.engine().model(); }

  ModelFixture model_{{.global_batch = 3, .micro_batch = 3, .seed = 7}};
  std::unique_ptr<BatchSlots> slots_;
  std::unique_ptr<Arena> images_;
  std::vector<std::size_t> order_;
  std::vector<std::vector<float>> seen_;
};

TEST_F(GradientReady, EveryBlockIsToldOnceInStorageOrder) {
  run(Accumulate::kOverwrite, 62);
  // Nine of the heads, twelve a layer, five of the embeddings.
  ASSERT_EQ(blocks(), 9U + 12U * 3U + 5U);
  std::vector<std::size_t> want(blocks());
  std::iota(want.begin(), want.end(), std::size_t{0});
  EXPECT_EQ(order_, want);
  EXPECT_EQ(model_.table().blocks().back().name, "bert.embeddings.word_embeddings.weight");
}

TEST_F(GradientReady, ABlockIsCompleteWhenItIsTold) {
  // Not a number where nothing was written yet, so that a block told too early is seen even if it is overwritten with the same value.
  fill_gradients(std::numeric_limits<float>::quiet_NaN());
  run(Accumulate::kOverwrite, 63);
  for (std::size_t block = 0; block < blocks(); ++block) {
    for (const float value : seen_[block]) {
      ASSERT_TRUE(std::isfinite(value)) << model_.table().blocks()[block].name << " was told of before it was written";
    }
  }
  expect_final();
}

TEST_F(GradientReady, ABlockIsCompleteWhenMicroBatchesAddUp) {
  run(Accumulate::kOverwrite, 64);
  const std::vector<std::vector<float>> first = seen_;
  run(Accumulate::kAdd, 65);
  ASSERT_EQ(order_.size(), blocks());
  expect_final();
  for (std::size_t block = 0; block < blocks(); ++block) {
    EXPECT_FALSE(seen_[block] == first[block]) << model_.table().blocks()[block].name << " was told of before its second part was added";
  }
}

}  // namespace
}  // namespace flashbert::testing
