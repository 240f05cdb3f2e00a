#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "attention_support.h"
#include "op_test.h"
#include "optimizer_support.h"
#include "reference/cross_entropy.h"
#include "reference/elementwise.h"
#include "reference/embeddings.h"
#include "reference/layer_norm.h"
#include "support/golden_ops.h"
#include "support/shared_data.h"

// The golden numbers are double results of another implementation; every input is exact in f32. The bounds are those of the references
// (tests/reference checks that these agree with the golden numbers to double accuracy), so the ops are held to the golden values.
namespace flashbert {
namespace {

using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::GoldenOps;
using Values = std::vector<double>;

class GoldenOp : public testing::OpTest {
 protected:
  void expect_layer_norm(const GoldenOps& golden) const;
  void expect_gelu(const GoldenOps& golden) const;
  void expect_short_attention(const GoldenOps& golden) const;
  void expect_cross_entropy(const GoldenOps& golden) const;
  void expect_embeddings(const GoldenOps& golden) const;
  void expect_lamb(const GoldenOps& golden) const;
  void expect_global_norm(const GoldenOps& golden) const;

  /// Puts golden values in the middle of the bounds that an estimate gives.
  static std::vector<Estimate> around(const Values& golden, const std::vector<Estimate>& bounds) {
    std::vector<Estimate> result;
    for (std::size_t i = 0; i < golden.size() && i < bounds.size(); ++i) result.emplace_back(golden[i], bounds[i].error);
    return result;
  }
};

void GoldenOp::expect_layer_norm(const GoldenOps& golden) const {
  for (const std::string& name : golden.cases_of("layer_norm")) {
    const reference::NormExtents e{.rows = golden.parameters(name).at("rows"), .hidden = golden.parameters(name).at("hidden")};
    const Shape shape{as_extent(e.rows), as_extent(e.hidden)};
    const Values x_values = golden.values(name, "x");
    const DeviceTensor x = f32(shape, x_values);
    const DeviceTensor gamma = f32({shape[1]}, golden.values(name, "gamma"));
    const DeviceTensor beta = f32({shape[1]}, golden.values(name, "beta"));
    const DeviceTensor dy = f32(shape, golden.values(name, "dy"));
    const DeviceTensor y = empty(Dtype::kF32, shape);
    const DeviceTensor z = empty(Dtype::kF32, shape);
    const DeviceTensor mean = empty(Dtype::kF32, {shape[0]});
    const DeviceTensor rstd = empty(Dtype::kF32, {shape[0]});
    ops().dropout_add_layer_norm_forward({.y = y,
                                          .z = z,
                                          .mean = mean,
                                          .rstd = rstd,
                                          .keep_bits = {},
                                          .x = x,
                                          .residual = {},
                                          .gamma = gamma,
                                          .beta = beta,
                                          .origin = {},
                                          .dropout = {}});
    const auto gamma_estimates = exact(golden.values(name, "gamma"));
    const auto bounds =
        reference::layer_norm_forward(e, exact(x_values), gamma_estimates, exact(golden.values(name, "beta")), reference::kNormEps);
    EXPECT_TRUE(z.bytes() == x.bytes());
    // A constant row has variance 0: a rounding of its mean is large beside sqrt(eps), so arithmetic bounds nothing but this.
    for (const double value : rstd.values()) EXPECT_LE(value, 1e6);
    testing::expect_close(y.values(), around(golden.values(name, "y"), bounds.y), name + " y");
    testing::expect_close(mean.values(), around(golden.values(name, "mean"), bounds.mean), name + " mean");
    testing::expect_close(rstd.values(), around(golden.values(name, "rstd"), bounds.rstd), name + " rstd");
    // Backward from the golden statistics, rounded to f32.
    const auto saved_mean = testing::stored(exact(golden.values(name, "mean")), Dtype::kF32);
    const auto saved_rstd = testing::stored(exact(golden.values(name, "rstd")), Dtype::kF32);
    const DeviceTensor golden_mean = f32({shape[0]}, golden.values(name, "mean"));
    const DeviceTensor golden_rstd = f32({shape[0]}, golden.values(name, "rstd"));
    const DeviceTensor dz = empty(Dtype::kF32, shape);
    const DeviceTensor dgamma = empty(Dtype::kF32, {shape[1]});
    const DeviceTensor dbeta = empty(Dtype::kF32, {shape[1]});
    ops().dropout_add_layer_norm_backward({.dz = dz,
                                           .dx = {},
                                           .dgamma = dgamma,
                                           .dbeta = dbeta,
                                           .dy = dy,
                                           .z = z,
                                           .mean = golden_mean,
                                           .rstd = golden_rstd,
                                           .gamma = gamma,
                                           .keep_bits = {},
                                           .dropout = {},
                                           .accumulate = Accumulate::kOverwrite});
    const auto gradients = reference::layer_norm_backward<Estimate>(e, exact(golden.values(name, "dy")),
                                                                    {exact(x_values), saved_mean, saved_rstd, gamma_estimates});
    testing::expect_close(dz.values(), around(golden.values(name, "dx"), gradients.dz), name + " dx");
    testing::expect_close(dgamma.values(), around(golden.values(name, "dgamma"), gradients.dgamma), name + " dgamma");
    testing::expect_close(dbeta.values(), around(golden.values(name, "dbeta"), gradients.dbeta), name + " dbeta");
  }
}

void GoldenOp::expect_gelu(const GoldenOps& golden) const {
  const Values x_values = golden.values("gelu_tanh", "x");
  const Values dy_values = golden.values("gelu_tanh", "dy");
  const Shape shape{as_extent(x_values.size())};
  const DeviceTensor x = f32(shape, x_values);
  const DeviceTensor dy = f32(shape, dy_values);
  const DeviceTensor y = empty(Dtype::kF32, shape);
  const DeviceTensor dx = empty(Dtype::kF32, shape);
  ops().gelu_forward({.y = y, .x = x});
  ops().gelu_backward({.dx = dx, .dy = dy, .x = x});
  std::vector<Estimate> y_bounds;
  std::vector<Estimate> dx_bounds;
  for (std::size_t i = 0; i < x_values.size(); ++i) {
    y_bounds.push_back(reference::gelu(Estimate(x_values[i])));
    dx_bounds.push_back(Estimate(dy_values[i]) * reference::gelu_slope(Estimate(x_values[i])));
    // The golden tanh form in f64 cancels for x < 0: half an ulp of 1 beside x.
    y_bounds.back().error += 8.0 * 0x1p-53 * std::min(8.0, std::abs(x_values[i]));
    dx_bounds.back().error += 64.0 * 0x1p-53 * 8.0 * std::abs(dy_values[i]);
  }
  testing::expect_close(y.values(), around(golden.values("gelu_tanh", "y"), y_bounds), "y");
  testing::expect_close(dx.values(), around(golden.values("gelu_tanh", "dx"), dx_bounds), "dx");
}

void GoldenOp::expect_short_attention(const GoldenOps& golden) const {
  for (const std::string& name : golden.cases_of("attention_varlen")) {
    if (!name.ends_with("short")) continue;  // the long cases are with the other tests of attention
    const auto lengths = golden.parameters(name).at("lengths").get<std::vector<std::int32_t>>();
    const auto head_dim = golden.parameters(name).at("head_dim").get<std::size_t>();
    testing::AttentionCase c({.lengths = {lengths, lengths}, .heads = 2, .head_dim = head_dim, .dropout = {}, .tail = 0}, Dtype::kF32, 1);
    c.query = golden.values(name, "q");
    c.key = golden.values(name, "k");
    c.value = golden.values(name, "v");
    c.dout = golden.values(name, "do");
    const testing::AttentionRun run(device(), Dtype::kF32, c);
    run.forward();
    run.backward();
    const reference::AttentionTensors<Estimate> in{exact(c.query), exact(c.key), exact(c.value)};
    auto bounds = reference::attention_forward(c.batch, in);
    bounds = {testing::stored(bounds.out, Dtype::kF32), testing::stored(bounds.lse, Dtype::kF32)};
    const auto gradients = reference::attention_backward(c.batch, in, bounds, exact(c.dout));
    const auto expect = [&](const DeviceTensor& got, const std::vector<Estimate>& bound, const Values& numbers, const char* tensor) {
      // The scale 1 / sqrt(32) is rounded to f32 first: one rounding more of each score.
      testing::expect_close(got.values(), testing::stored(around(numbers, bound), Dtype::kF32), name + " " + tensor);
    };
    expect(run.out, bounds.out, golden.values(name, "o"), "o");
    expect(run.lse, bounds.lse, golden.log_sums(name), "lse");
    expect(run.dquery, gradients.dquery, golden.values(name, "dq"), "dq");
    expect(run.dkey, gradients.dkey, golden.values(name, "dk"), "dk");
    expect(run.dvalue, gradients.dvalue, golden.values(name, "dv"), "dv");
  }
}

void GoldenOp::expect_cross_entropy(const GoldenOps& golden) const {
  for (const std::string& name : golden.cases_of("softmax_cross_entropy")) {
    const auto& parameters = golden.parameters(name);
    const std::vector<std::int32_t> label_values = golden.integers(name, "labels");
    const reference::CrossEntropyExtents e{
        .rows = label_values.size(), .columns = parameters.at("columns"), .classes = parameters.at("vocab")};
    const double denominator = parameters.at("denominator");
    const Values logit_values = golden.values(name, "logits");
    const DeviceTensor logits = f32({as_extent(e.rows), as_extent(e.columns)}, logit_values);
    const DeviceTensor labels = i32(label_values);
    const DeviceTensor scale = f32({1}, {1.0 / denominator});
    const DeviceTensor nll(device(), Dtype::kF64, {1}, Values{0.0});
    const DeviceTensor correct(device(), Dtype::kI64, {1}, Values{0.0});
    const DeviceTensor counted(device(), Dtype::kI64, {1}, Values{0.0});
    ops().softmax_cross_entropy(
        {.logits = logits, .labels = labels, .scale = scale, .counters = {nll, correct, counted}, .classes = as_extent(e.classes)});
    const auto bounds = reference::softmax_cross_entropy(e, exact(logit_values), label_values, testing::as_f32(1.0 / denominator));
    testing::Sum<Estimate> sum;
    for (const Estimate& row : bounds.nll) sum.add(row);
    Values golden_nll = golden.values(name, "nll");
    double golden_sum = 0.0;
    for (const double value : golden_nll) golden_sum += value;
    testing::expect_close(nll.values(), {Estimate(golden_sum, sum.total().error)}, name + " nll");
    testing::expect_close(logits.values(), around(golden.values(name, "dlogits"), testing::stored(bounds.gradient, Dtype::kF32)), name);
    EXPECT_EQ(counted.values()[0], static_cast<double>(e.rows));
    if (name != "cross_entropy_padded") continue;
    double golden_correct = 0.0;
    for (const double value : golden.values(name, "correct")) golden_correct += value;
    EXPECT_EQ(correct.values()[0], golden_correct);
  }
}

void GoldenOp::expect_embeddings(const GoldenOps& golden) const {
  const std::string name = "embeddings";
  const auto& parameters = golden.parameters(name);
  const std::int64_t hidden = parameters.at("hidden");
  const std::vector<std::int32_t> ids = golden.integers(name, "ids");
  const std::vector<std::int32_t> positions = golden.integers(name, "positions");
  const std::vector<std::int32_t> types = golden.integers(name, "types");
  const auto rows = as_extent(ids.size());
  const DeviceTensor word = f32({parameters.at("vocab"), hidden}, golden.values(name, "word"));
  const DeviceTensor position = f32({parameters.at("max_position"), hidden}, golden.values(name, "position"));
  const DeviceTensor segment = f32({parameters.at("types"), hidden}, golden.values(name, "type"));
  const DeviceTensor token_ids = i32(ids);
  const DeviceTensor position_ids = i32(positions);
  const DeviceTensor segment_ids = i32(types);
  const DeviceTensor gamma = f32({hidden}, Values(static_cast<std::size_t>(hidden), 1.0));
  const DeviceTensor y = empty(Dtype::kF32, {rows, hidden});
  const DeviceTensor z = empty(Dtype::kF32, {rows, hidden});
  const DeviceTensor mean = empty(Dtype::kF32, {rows});
  const DeviceTensor rstd = empty(Dtype::kF32, {rows});
  ops().embeddings_forward({.y = y,
                            .z = z,
                            .mean = mean,
                            .rstd = rstd,
                            .keep_bits = {},
                            .token_ids = token_ids,
                            .position_ids = position_ids,
                            .segment_ids = segment_ids,
                            .word = word,
                            .position = position,
                            .segment = segment,
                            .gamma = gamma,
                            .beta = gamma,
                            .origin = {},
                            .dropout = {}});
  const auto bounds = reference::embeddings_sum<Estimate>(
      {ids, positions, types},
      {exact(golden.values(name, "word")), exact(golden.values(name, "position")), exact(golden.values(name, "type"))},
      static_cast<std::size_t>(hidden));
  testing::expect_close(z.values(), around(golden.values(name, "y"), bounds), "sum");
}

void GoldenOp::expect_lamb(const GoldenOps& golden) const {
  for (const std::string& name : golden.cases_of("lamb")) {
    const auto& p = golden.parameters(name);
    const testing::LambSettings settings{.learning_rate = p.at("lr"),
                                         .beta1 = p.at("beta1"),
                                         .beta2 = p.at("beta2"),
                                         .epsilon = p.at("epsilon"),
                                         .weight_decay = p.at("weight_decay"),
                                         .step = p.at("step")};
    const testing::LambTensor tensor{{golden.values(name, "w"), golden.values(name, "m"), golden.values(name, "v")},
                                     golden.values(name, "g"),
                                     !p.at("excluded").get<bool>()};
    testing::LambOnDevice run(device(), {tensor});
    run.update(settings);
    auto want = testing::expected_lamb(settings, tensor);
    want.state = {around(golden.values(name, "w_after"), want.state.weight), around(golden.values(name, "m_after"), want.state.m),
                  around(golden.values(name, "v_after"), want.state.v)};
    want.weight_norm.value = p.at("w_norm");
    want.update_norm.value = p.at("u_norm");
    want.trust_ratio.value = p.at("ratio");
    testing::expect_lamb(run, 0, want, name);
  }
}

void GoldenOp::expect_global_norm(const GoldenOps& golden) const {
  for (const std::string& name : golden.cases_of("global_norm")) {
    const auto& parameters = golden.parameters(name);
    std::vector<std::unique_ptr<DeviceTensor>> memory;
    std::vector<ConstTensor> views;
    for (std::size_t i = 0; i < parameters.at("sizes").size(); ++i) {
      const Values values = golden.values(name, fmt::format("t{}", i));
      memory.push_back(std::make_unique<DeviceTensor>(device(), Dtype::kF32, Shape{as_extent(values.size())}, values));
      views.emplace_back(*memory.back());
    }
    const DeviceTensor norm = empty(Dtype::kF32, {1});
    const DeviceTensor clip_scale = empty(Dtype::kF32, {1});
    const DeviceTensor first_bad = empty(Dtype::kI32, {1});
    ops().global_norm({.result = {norm, clip_scale, first_bad}, .tensors = views, .clip = 1.0F});
    const double want = parameters.at("norm");
    testing::expect_close({norm.values()[0], clip_scale.values()[0]}, {want, std::min(1.0, 1.0 / want)},
                          {.relative = 1.001 * unit_roundoff(Dtype::kF32)}, name);
    EXPECT_EQ(first_bad.values()[0], -1.0);
  }
}

// Small cases that stand in the repository.
TEST_P(GoldenOp, LayerNorm) { expect_layer_norm(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, Gelu) { expect_gelu(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, ShortAttention) { expect_short_attention(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, CrossEntropy) { expect_cross_entropy(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, Embeddings) { expect_embeddings(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, Lamb) { expect_lamb(GoldenOps(testing::repository_goldens() / "ops")); }
TEST_P(GoldenOp, GlobalNorm) { expect_global_norm(GoldenOps(testing::repository_goldens() / "ops")); }

FLASHBERT_FOR_DEVICES(GoldenOp);

/// The larger cases of the shared folder.
class SharedGoldenOp : public GoldenOp {
 protected:
  void SetUp() override {
    FLASHBERT_SHARED_OR_SKIP(shared);
    golden_.emplace(shared / "golden/ops");
  }
  [[nodiscard]] const GoldenOps& golden() const { return *golden_; }

 private:
  std::optional<GoldenOps> golden_;
};

TEST_P(SharedGoldenOp, LayerNorm) { expect_layer_norm(golden()); }
TEST_P(SharedGoldenOp, Gelu) { expect_gelu(golden()); }
TEST_P(SharedGoldenOp, ShortAttention) { expect_short_attention(golden()); }
TEST_P(SharedGoldenOp, CrossEntropy) { expect_cross_entropy(golden()); }
TEST_P(SharedGoldenOp, Embeddings) { expect_embeddings(golden()); }
TEST_P(SharedGoldenOp, Lamb) { expect_lamb(golden()); }
TEST_P(SharedGoldenOp, GlobalNorm) { expect_global_norm(golden()); }

FLASHBERT_FOR_DEVICES(SharedGoldenOp);

}  // namespace
}  // namespace flashbert
