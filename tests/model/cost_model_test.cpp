#include "model/cost_model.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace flashbert {
namespace {

/// Length and masked positions of each sample.
BatchCounts counts_of(const std::vector<std::pair<double, double>>& samples) {
  BatchCounts counts;
  for (const auto& [length, masked] : samples) {
    counts.tokens += length;
    counts.squared_lengths += length * length;
    counts.masked += masked;
    counts.sequences += 1.0;
    counts.head_row_lengths += length * (masked + 1.0);
  }
  return counts;
}

// Forward, a sample of S tokens with P masked, a layer: four projections 8 S H^2, two feed-forward products 4 S H I, scores and values
// 4 S^2 H; heads P (2 H^2 + 2 H V) + 2 H^2 + 4 H. A step is three times that. Executed: the last layer has only keys and values for all
// rows and the rest for P + 1 rows, the vocabulary is padded to 64, attention counts 3.5 times. Summed sample by sample in exact
// arithmetic.
TEST(CostModel, CountsASmallModelAsOnPaper) {
  const BertConfig model{.layers = 3, .hidden = 40, .heads = 5, .intermediate = 56, .vocab = 83, .max_positions = 37, .type_vocab = 2};
  const BatchCounts counts = counts_of({{37, 7}, {5, 1}, {18, 3}});
  EXPECT_DOUBLE_EQ(training_flops(model, counts), 14'579'280.0);
  EXPECT_DOUBLE_EQ(executed_training_flops(model, counts), 12'240'320.0);
}

TEST(CostModel, CountsBertLargeAsOnPaper) {
  const BertConfig model;
  const BatchCounts counts = counts_of({{512, 76}, {512, 76}, {100, 15}});
  EXPECT_DOUBLE_EQ(training_flops(model, counts), 2'226'574'368'768.0);
  EXPECT_DOUBLE_EQ(executed_training_flops(model, counts), 2'186'315'108'352.0);
}

}  // namespace
}  // namespace flashbert
