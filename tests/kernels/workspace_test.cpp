// Each op asks for so much workspace as its family books, and says so where less is bound.
#include "kernels/workspace.h"

#include <gtest/gtest.h>

#include <functional>

#include "attention_support.h"
#include "kernels/cpu/cpu_ops.h"
#include "op_test.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;
using testing::TestDevice;

constexpr std::int64_t kHidden = 72;
constexpr std::int64_t kRows = 96;
constexpr std::int64_t kLongest = 90;
constexpr std::int64_t kVocab = 128;
constexpr std::int64_t kElements[] = {kHidden * 100, 7, 4096, 4097};  // chunks of 4,096: 2 + 1 + 1 + 2

OpsPlan largest_plan() {
  OpsPlan plan;
  plan.max_tokens = kRows;
  plan.max_seq_len = kLongest;
  plan.head_dim = 24;
  plan.hidden = kHidden;
  plan.max_logit_rows = kRows;
  plan.parameter_elements.assign(std::begin(kElements), std::end(kElements));
  return plan;
}

class Workspace : public testing::OpTest {
 protected:
  /// Runs the op with the plan's largest shapes: a workspace of one byte is refused with what it needs, which the family has booked; so
  /// much is enough, one byte less is not.
  void expect_covered(const char* op, std::int64_t booked, const std::function<void(const TestDevice&)>& run) const {
    const auto with = [&](std::int64_t bytes) {
      const TestDevice on(GetParam().device);
      const DeviceTensor workspace(on, Dtype::kU8, {bytes});
      on.ops().prepare({}, workspace);  // an empty plan takes a workspace of any size
      run(on);
    };
    std::int64_t needed = 0;
    try {
      with(1);
      FAIL() << op << " took a workspace of one byte";
    } catch (const WorkspaceTooSmall& error) {
      EXPECT_EQ(error.op, op);
      EXPECT_EQ(error.bound, 1);
      needed = error.needed;
    }
    EXPECT_LE(needed, booked) << op;
    with(needed);
    EXPECT_THROW(with(needed - 1), WorkspaceTooSmall) << op;
  }
  [[nodiscard]] const CpuContext& context() const { return device().cpu_context(); }
};

TEST_P(Workspace, OfAttentionCoversItsLongestSequences) {
  // The last layer's plan: one query row each is the least that a sequence has.
  const testing::AttentionCase c({.lengths = {{kLongest, 6}, {kLongest, 6}}, .heads = 3, .head_dim = 24, .dropout = {}, .tail = 0}, dtype(),
                                 811);
  const std::int64_t booked = cpu::attention_scratch_bytes(largest_plan(), context());
  expect_covered("attention_forward", booked, [&](const TestDevice& on) { testing::AttentionRun(on, dtype(), c).forward(); });
  expect_covered("attention_backward", booked, [&](const TestDevice& on) {
    testing::AttentionRun run(on, dtype(), c);
    // Backward alone: forward's outputs are read, whatever they are.
    run.out.set(std::vector<double>(static_cast<std::size_t>(run.out.view().elements()), 0.5));
    run.lse.set(std::vector<double>(static_cast<std::size_t>(run.lse.view().elements()), 3.0));
    run.backward();
  });
}

TEST_P(Workspace, OfAttentionCoversManyShortSequences) {
  testing::Lengths ones;
  ones.queries.assign(kRows, 1);
  ones.keys.assign(kRows, 1);
  const testing::AttentionCase c({.lengths = ones, .heads = 3, .head_dim = 24, .dropout = {}, .tail = 0}, dtype(), 812);
  expect_covered("attention_forward", cpu::attention_scratch_bytes(largest_plan(), context()),
                 [&](const TestDevice& on) { testing::AttentionRun(on, dtype(), c).forward(); });
}

TEST_P(Workspace, OfLayerNormCoversItsRows) {
  const std::int64_t booked = cpu::layer_norm_scratch_bytes(largest_plan(), context());
  const std::vector<double> values(kRows * kHidden, 0.5);
  const std::vector<double> ones(kHidden, 1.0);
  const std::vector<double> rows(kRows, 1.0);
  expect_covered("dropout_add_layer_norm_forward", booked, [&](const TestDevice& on) {
    const DeviceTensor x(on, dtype(), {kRows, kHidden}, values);
    const DeviceTensor y(on, dtype(), {kRows, kHidden});
    const DeviceTensor gamma(on, Dtype::kF32, {kHidden}, ones);
    const DeviceTensor mean(on, Dtype::kF32, {kRows});
    const DeviceTensor rstd(on, Dtype::kF32, {kRows});
    DropoutAddLayerNormForward args;
    args.y = y;
    args.mean = mean;
    args.rstd = rstd;
    args.x = x;
    args.gamma = gamma;
    args.beta = gamma;
    on.ops().dropout_add_layer_norm_forward(args);
  });
  expect_covered("dropout_add_layer_norm_backward", booked, [&](const TestDevice& on) {
    const DeviceTensor dy(on, dtype(), {kRows, kHidden}, values);
    const DeviceTensor dz(on, dtype(), {kRows, kHidden});
    const DeviceTensor gamma(on, Dtype::kF32, {kHidden}, ones);
    const DeviceTensor dgamma(on, Dtype::kF32, {kHidden});
    const DeviceTensor dbeta(on, Dtype::kF32, {kHidden});
    const DeviceTensor mean(on, Dtype::kF32, {kRows}, rows);
    const DeviceTensor rstd(on, Dtype::kF32, {kRows}, rows);
    DropoutAddLayerNormBackward args;
    args.dz = dz;
    args.dgamma = dgamma;
    args.dbeta = dbeta;
    args.dy = dy;
    args.z = dy;
    args.mean = mean;
    args.rstd = rstd;
    args.gamma = gamma;
    args.accumulate = Accumulate::kOverwrite;
    on.ops().dropout_add_layer_norm_backward(args);
  });
}

TEST_P(Workspace, OfEmbeddingGradientsCoversItsRows) {
  const std::vector<double> values(kRows * kHidden, 0.5);
  std::vector<std::int32_t> order(kRows);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  expect_covered("embedding_gradient", cpu::embeddings_scratch_bytes(largest_plan(), context()), [&](const TestDevice& on) {
    const DeviceTensor table(on, Dtype::kF32, {10, kHidden}, std::vector<double>(10 * kHidden, 0.0));
    const DeviceTensor dz(on, dtype(), {kRows, kHidden}, values);
    const DeviceTensor rows = make_i32(on, order);
    const DeviceTensor starts = make_i32(on, {0, kRows});
    const DeviceTensor ids = make_i32(on, {4});
    const DeviceTensor runs = make_i32(on, {1});
    on.ops().embedding_gradient({.dtable = table, .dz = dz, .order = rows, .starts = starts, .ids = ids, .runs = runs});
  });
}

TEST_P(Workspace, OfCrossEntropyCoversItsRows) {
  expect_covered("softmax_cross_entropy", cpu::cross_entropy_scratch_bytes(largest_plan(), context()), [&](const TestDevice& on) {
    const DeviceTensor logits(on, dtype(), {kRows, kVocab}, std::vector<double>(kRows * kVocab, 0.25));
    const DeviceTensor labels = make_i32(on, std::vector<std::int32_t>(kRows, 3));
    const DeviceTensor scale(on, Dtype::kF32, Shape{1}, std::vector<double>{1.0});
    const DeviceTensor nll(on, Dtype::kF64, Shape{1}, std::vector<double>{0.0});
    const DeviceTensor correct(on, Dtype::kI64, Shape{1}, std::vector<double>{0.0});
    const DeviceTensor counted(on, Dtype::kI64, Shape{1}, std::vector<double>{0.0});
    on.ops().softmax_cross_entropy({.logits = logits,
                                    .labels = labels,
                                    .scale = scale,
                                    .counters = {nll, correct, counted},
                                    .classes = kVocab - 5,
                                    .gradient = SoftmaxCrossEntropy::Gradient::kInPlace});
  });
}

TEST_P(Workspace, OfTheOptimizerCoversAllParameters) {
  const std::int64_t booked = cpu::optimizer_scratch_bytes(largest_plan(), context());
  expect_covered("global_norm", booked, [&](const TestDevice& on) {
    std::vector<std::unique_ptr<DeviceTensor>> tensors;
    std::vector<ConstTensor> views;
    for (const std::int64_t elements : kElements) {
      tensors.push_back(
          std::make_unique<DeviceTensor>(on, Dtype::kF32, Shape{elements}, std::vector<double>(static_cast<std::size_t>(elements), 0.1)));
      views.push_back(*tensors.back());
    }
    const DeviceTensor norm(on, Dtype::kF32, {1});
    const DeviceTensor clip(on, Dtype::kF32, {1});
    const DeviceTensor bad(on, Dtype::kI32, {1});
    on.ops().global_norm({.result = {norm, clip, bad}, .tensors = views, .clip = 1.0F});
  });
}

TEST_P(Workspace, OfProductsCoversThePlannedShapesAndNoLargerOnes) {
  const LinearShape shape{.in = kHidden, .out = 2 * kHidden, .max_rows = kRows, .compute = dtype(), .training = true};
  OpsPlan plan = largest_plan();
  plan.linears = {shape};
  const TestDevice on(GetParam().device);
  const DeviceTensor workspace(on, Dtype::kU8, {on.ops().workspace_bytes(plan)});
  on.ops().prepare(plan, workspace);
  const auto products = [&](std::int64_t in, std::int64_t out, std::int64_t rows) {
    LinearShape own = shape;
    own.in = in;
    own.out = out;
    const DeviceTensor weight(on, dtype(), {out, in}, std::vector<double>(static_cast<std::size_t>(in * out), 0.5));
    const DeviceTensor pack(on, Dtype::kU8, {on.ops().linear_pack_bytes(own)});
    const LinearWeights weights{weight, pack.view().elements() > 0 ? pack.view() : Tensor()};
    on.ops().linear_pack({.weights = weights});
    const DeviceTensor x(on, dtype(), {rows, in}, std::vector<double>(static_cast<std::size_t>(rows * in), 0.5));
    const DeviceTensor y(on, dtype(), {rows, out});
    const DeviceTensor dy(on, dtype(), {rows, out}, std::vector<double>(static_cast<std::size_t>(rows * out), 0.5));
    const DeviceTensor dx(on, dtype(), {rows, in});
    const DeviceTensor dweight(on, Dtype::kF32, {out, in});
    on.ops().linear_forward({.y = y, .x = x, .weights = weights, .bias = {}});
    on.ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = weights});
    on.ops().linear_weight_gradient({.dweight = dweight, .dbias = {}, .dy = dy, .x = x, .accumulate = Accumulate::kOverwrite});
  };
  for (std::int64_t rows = 32; rows <= kRows; rows += 32) products(kHidden, 2 * kHidden, rows);
  EXPECT_THROW(products(16 * kHidden, 32 * kHidden, 4 * kRows), WorkspaceTooSmall);
}

TEST_P(Workspace, OfEmbeddingsCoversItsRows) {
  const std::int64_t booked = cpu::embeddings_scratch_bytes(largest_plan(), context());
  const std::vector<double> values(kRows * kHidden, 0.5);
  const std::vector<double> ones(kHidden, 1.0);
  const std::vector<double> rows(kRows, 1.0);
  expect_covered("embeddings_forward", booked, [&](const TestDevice& on) {
    const DeviceTensor ids = make_i32(on, std::vector<std::int32_t>(kRows, 2));
    const DeviceTensor table(on, dtype(), {5, kHidden}, std::vector<double>(5 * kHidden, 0.5));
    const DeviceTensor y(on, dtype(), {kRows, kHidden});
    const DeviceTensor z(on, dtype(), {kRows, kHidden});
    const DeviceTensor gamma(on, Dtype::kF32, {kHidden}, ones);
    const DeviceTensor mean(on, Dtype::kF32, {kRows});
    const DeviceTensor rstd(on, Dtype::kF32, {kRows});
    EmbeddingsForward args;
    args.y = y;
    args.z = z;
    args.mean = mean;
    args.rstd = rstd;
    args.token_ids = ids;
    args.position_ids = ids;
    args.segment_ids = ids;
    args.word = table;
    args.position = table;
    args.segment = table;
    args.gamma = gamma;
    args.beta = gamma;
    on.ops().embeddings_forward(args);
  });
  expect_covered("embeddings_backward", booked, [&](const TestDevice& on) {
    const DeviceTensor dy(on, dtype(), {kRows, kHidden}, values);
    const DeviceTensor dz(on, dtype(), {kRows, kHidden});
    const DeviceTensor gamma(on, Dtype::kF32, {kHidden}, ones);
    const DeviceTensor dgamma(on, Dtype::kF32, {kHidden});
    const DeviceTensor dbeta(on, Dtype::kF32, {kHidden});
    const DeviceTensor mean(on, Dtype::kF32, {kRows}, rows);
    const DeviceTensor rstd(on, Dtype::kF32, {kRows}, rows);
    EmbeddingsBackward args;
    args.dz = dz;
    args.dgamma = dgamma;
    args.dbeta = dbeta;
    args.dy = dy;
    args.z = dy;
    args.mean = mean;
    args.rstd = rstd;
    args.gamma = gamma;
    args.accumulate = Accumulate::kOverwrite;
    on.ops().embeddings_backward(args);
  });
}

// workspace_bytes() books the largest: each family's turn, with sizes that leave the others behind. Embeddings need what LayerNorm needs,
// or less. One thread, since attention and LayerNorm book for each.
TEST_P(Workspace, IsBookedForWhicheverFamilyNeedsMost) {
  const TestDevice on(GetParam().device, 1);
  const CpuContext& one = on.cpu_context();
  OpsPlan little;
  little.max_tokens = 1;
  little.max_seq_len = 1;
  little.head_dim = 8;
  little.hidden = 8;
  little.max_logit_rows = 1;
  little.parameter_elements = {1};
  OpsPlan attention = little;
  attention.max_tokens = 512;
  attention.max_seq_len = 512;
  OpsPlan norm = little;
  norm.max_logit_rows = 4096;
  norm.hidden = 8192;
  OpsPlan loss = little;
  loss.max_logit_rows = 65536;
  OpsPlan optimizer = little;
  optimizer.parameter_elements.assign(100, 4096000);
  using Family = std::int64_t (*)(const OpsPlan&, const CpuContext&);
  const std::vector<std::pair<Family, OpsPlan>> cases = {{cpu::attention_scratch_bytes, attention},
                                                         {cpu::layer_norm_scratch_bytes, norm},
                                                         {cpu::cross_entropy_scratch_bytes, loss},
                                                         {cpu::optimizer_scratch_bytes, optimizer}};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [needs, plan] = cases[i];
    const std::int64_t bytes = needs(plan, one);
    for (std::size_t other = 0; other < cases.size(); ++other) {
      if (other != i) {
        ASSERT_LT(cases[other].first(plan, one), bytes) << "case " << i << " is not the one of family " << other;
      }
    }
    EXPECT_EQ(on.ops().workspace_bytes(plan), (bytes + 255) / 256 * 256) << "family " << i;
  }
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(Workspace);

}  // namespace
}  // namespace flashbert
