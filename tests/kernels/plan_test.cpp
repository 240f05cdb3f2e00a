#include <gtest/gtest.h>

#include <vector>

#include "attention_support.h"
#include "kernels/workspace.h"
#include "op_test.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;
using testing::TestDevice;

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kRows = 96;
constexpr Dropout kDropout{.rate = 0.1F, .seed = 3, .layer = 1, .site = DropoutSite::kAttention};

class PlannedOps : public testing::OpTest {
 protected:
  [[nodiscard]] OpsPlan plan() const {
    OpsPlan plan;
    plan.linears = {{.in = kHidden, .out = kHidden, .max_rows = kRows, .compute = dtype(), .training = true}};
    plan.max_tokens = kRows;
    plan.max_seq_len = 70;
    plan.head_dim = 32;
    plan.hidden = kHidden;
    plan.max_logit_rows = kRows;
    plan.parameter_elements = {kHidden * kHidden};
    return plan;
  }

  /// One pass through every family whose scratch a plan books.
  static std::vector<std::byte> run(const TestDevice& on, Dtype type) {
    testing::RandomValues random(801);
    std::vector<std::byte> bytes;
    const Shape shape{kRows, kHidden};
    const DeviceTensor x(on, type, shape, random.values(kRows * kHidden, type));
    const DeviceTensor dy(on, type, shape, random.values(kRows * kHidden, type));
    const DeviceTensor weight(on, type, {kHidden, kHidden}, random.values(kHidden * kHidden, type));
    const DeviceTensor vector(on, Dtype::kF32, {kHidden}, random.values(kHidden, Dtype::kF32));
    const DeviceTensor pack(
        on, Dtype::kU8,
        {on.ops().linear_pack_bytes({.in = kHidden, .out = kHidden, .max_rows = kRows, .compute = type, .training = true})});
    const LinearWeights weights{weight, pack.view().elements() > 0 ? pack.view() : Tensor()};
    const DeviceTensor y(on, type, shape);
    const DeviceTensor dx(on, type, shape);
    const DeviceTensor dweight(on, Dtype::kF32, {kHidden, kHidden});
    on.ops().linear_pack({.weights = weights});
    on.ops().linear_forward({.y = y, .x = x, .weights = weights, .bias = vector});
    on.ops().linear_input_gradient({.dx = dx, .dy = dy, .weights = weights});
    on.ops().linear_weight_gradient({.dweight = dweight, .dbias = {}, .dy = dy, .x = x, .accumulate = Accumulate::kOverwrite});
    const DeviceTensor mean(on, Dtype::kF32, {kRows});
    const DeviceTensor rstd(on, Dtype::kF32, {kRows});
    const DeviceTensor dgamma(on, Dtype::kF32, {kHidden});
    const DeviceTensor dbeta(on, Dtype::kF32, {kHidden});
    const DeviceTensor normalised(on, type, shape);
    const DeviceTensor dz(on, type, shape);
    DropoutAddLayerNormForward forward;
    forward.y = normalised;
    forward.mean = mean;
    forward.rstd = rstd;
    forward.x = x;
    forward.gamma = vector;
    forward.beta = vector;
    on.ops().dropout_add_layer_norm_forward(forward);
    DropoutAddLayerNormBackward backward;
    backward.dz = dz;
    backward.dgamma = dgamma;
    backward.dbeta = dbeta;
    backward.dy = dy;
    backward.z = x;
    backward.mean = mean;
    backward.rstd = rstd;
    backward.gamma = vector;
    backward.accumulate = Accumulate::kOverwrite;
    on.ops().dropout_add_layer_norm_backward(backward);
    for (const DeviceTensor* tensor : {&y, &dx, &dweight, &normalised, &dz, &dgamma, &dbeta}) testing::append(bytes, *tensor);
    const testing::AttentionCase c({.lengths = {{20, 65}, {20, 65}}, .heads = 2, .head_dim = 32, .dropout = kDropout, .tail = 11}, type,
                                   802);
    const testing::AttentionRun attention(on, type, c);
    attention.forward();
    attention.backward();
    for (const DeviceTensor* tensor : {&attention.out, &attention.dquery, &attention.dkey, &attention.dvalue})
      testing::append(bytes, *tensor);
    return bytes;
  }
};

TEST_P(PlannedOps, GiveTheSameBitsFromAPoisonedWorkspaceAsWithoutAPlan) {
  const std::vector<std::byte> unplanned = run(device(), dtype());
  const TestDevice planned(GetParam().device);
  const std::int64_t bytes = planned.ops().workspace_bytes(plan());
  ASSERT_GT(bytes, 0);
  // The workspace's guards also show when a family writes past what it booked.
  const DeviceTensor workspace(planned, Dtype::kU8, {bytes});
  planned.ops().prepare(plan(), workspace);
  EXPECT_TRUE(run(planned, dtype()) == unplanned);
  EXPECT_TRUE(run(planned, dtype()) == unplanned) << "second use of the workspace";
}

TEST_P(PlannedOps, OfInferenceBookNothingForBackward) {
  OpsPlan inference = plan();
  inference.training = false;
  inference.linears[0].training = false;
  const std::int64_t bytes = device().ops().workspace_bytes(inference);
  EXPECT_LT(bytes, device().ops().workspace_bytes(plan()));
  const DeviceTensor workspace(device(), Dtype::kU8, {bytes});
  device().ops().prepare(inference, workspace);
  const testing::AttentionCase c({.lengths = {{26, 70}, {26, 70}}, .heads = 2, .head_dim = 32, .dropout = {}, .tail = 0}, dtype(), 803);
  const testing::AttentionRun attention(device(), dtype(), c);
  attention.forward();
  EXPECT_THROW(attention.backward(), WorkspaceTooSmall);
}

TEST_P(PlannedOps, AskForWorkspaceAsOftenAsWantedAndForNoneWithoutAPlan) {
  const std::int64_t bytes = device().ops().workspace_bytes(plan());
  EXPECT_EQ(device().ops().workspace_bytes(plan()), bytes);
  EXPECT_EQ(device().ops().workspace_bytes({}), 0);
}

TEST_P(PlannedOps, RefuseAWorkspaceThatIsSmallerThanThePlans) {
  const std::int64_t bytes = device().ops().workspace_bytes(plan());
  const DeviceTensor small(device(), Dtype::kU8, {bytes - 1});
  EXPECT_NE(testing::message_of<ShapeError>([&] { device().ops().prepare(plan(), small); }).find(std::to_string(bytes)), std::string::npos);
  const DeviceTensor wrong(device(), Dtype::kF32, {bytes});
  EXPECT_THROW(device().ops().prepare(plan(), wrong), ShapeError);
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(PlannedOps);

}  // namespace
}  // namespace flashbert
