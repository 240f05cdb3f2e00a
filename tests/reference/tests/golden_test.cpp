#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "reference/cross_entropy.h"
#include "reference/elementwise.h"
#include "reference/embeddings.h"
#include "reference/layer_norm.h"
#include "reference/optimizer.h"
#include "support/compare.h"
#include "support/golden_ops.h"
#include "support/shared_data.h"

namespace flashbert::reference {
namespace {

using testing::GoldenOps;
using testing::Tolerance;
using Values = std::vector<double>;

double largest(const Values& values) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Two double implementations of the same formula: a few thousand roundings of the largest element.
void expect_same(const Values& got, const Values& want, const std::string& what) {
  testing::expect_close(got, want, {.absolute = 4096.0 * 0x1p-53 * largest(want)}, what);
}

/// The goldens of the repository, and those of the shared folder.
class GoldenReference : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("small")) {
      golden_.emplace(testing::repository_goldens() / "ops");
      return;
    }
    FLASHBERT_SHARED_OR_SKIP(shared);
    golden_.emplace(shared / "golden/ops");
  }
  [[nodiscard]] const GoldenOps& golden() const { return *golden_; }

 private:
  std::optional<GoldenOps> golden_;
};

TEST_P(GoldenReference, LayerNormAgrees) {
  for (const std::string& name : golden().cases_of("layer_norm")) {
    const auto& parameters = golden().parameters(name);
    const NormExtents e{.rows = parameters.at("rows"), .hidden = parameters.at("hidden")};
    const Values x = golden().values(name, "x");
    const Values gamma = golden().values(name, "gamma");
    const auto forward = layer_norm_forward(e, x, gamma, golden().values(name, "beta"), parameters.at("eps"));
    // Row 1 has mean 100 and spread 0.01: a rounding of the mean is 1e4 roundings of y.
    const Tolerance cancelled{.absolute = 4096.0 * 0x1p-53 * 1e4 * largest(golden().values(name, "y"))};
    testing::expect_close(forward.mean, golden().values(name, "mean"), {.absolute = 4096.0 * 0x1p-53 * 100.0}, name + " mean");
    testing::expect_close(forward.y, golden().values(name, "y"), cancelled, name + " y");
    const auto backward =
        layer_norm_backward(e, golden().values(name, "dy"), {x, golden().values(name, "mean"), golden().values(name, "rstd"), gamma});
    expect_same(backward.dz, golden().values(name, "dx"), name + " dx");
    testing::expect_close(backward.dgamma, golden().values(name, "dgamma"), cancelled, name + " dgamma");
    expect_same(backward.dbeta, golden().values(name, "dbeta"), name + " dbeta");
  }
}

TEST_P(GoldenReference, GeluAgrees) {
  const Values x = golden().values("gelu_tanh", "x");
  const Values dy = golden().values("gelu_tanh", "dy");
  Values y;
  Values slope;
  Values dx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(gelu(x[i]));
    slope.push_back(gelu_slope(x[i]));
    dx.push_back(dy[i] * slope.back());
  }
  // The tanh form loses up to half an ulp of 1 beside x; both forms a few roundings.
  const Tolerance tolerance{.absolute = 16.0 * 0x1p-53 * 8.0, .relative = 16.0 * 0x1p-53};
  testing::expect_close(y, golden().values("gelu_tanh", "y"), tolerance, "y");
  testing::expect_close(slope, golden().values("gelu_tanh", "slope"), {.absolute = 64.0 * 0x1p-53 * 8.0, .relative = 1e-14}, "slope");
  testing::expect_close(dx, golden().values("gelu_tanh", "dx"), {.absolute = 64.0 * 0x1p-53 * 8.0 * largest(dy), .relative = 1e-14}, "dx");
}

TEST_P(GoldenReference, AttentionAgrees) {
  for (const std::string& name : golden().cases_of("attention_varlen")) {
    const auto& parameters = golden().parameters(name);
    AttentionBatch batch;
    batch.heads = parameters.at("heads");
    batch.head_dim = parameters.at("head_dim");
    batch.scale = parameters.at("scale");
    batch.cu_queries = golden().integers(name, "cu_seqlens");
    batch.cu_keys = batch.cu_queries;
    batch.query_rows = batch.key_rows = static_cast<std::size_t>(batch.cu_queries.back());
    const AttentionTensors<double> in{golden().values(name, "q"), golden().values(name, "k"), golden().values(name, "v")};
    const auto forward = attention_forward(batch, in);
    const auto gradients = attention_backward(batch, in, forward, golden().values(name, "do"));
    // The long cases are stored in f32.
    const bool stored_in_f32 = name.find("short") == std::string::npos;
    const Tolerance tolerance{.absolute = 1e-12, .relative = stored_in_f32 ? 0x1p-24 : 0.0};
    testing::expect_close(forward.lse, golden().log_sums(name), {.absolute = 1e-12}, name + " lse");
    testing::expect_close(forward.out, golden().values(name, "o"), tolerance, name + " o");
    testing::expect_close(gradients.dquery, golden().values(name, "dq"), tolerance, name + " dq");
    testing::expect_close(gradients.dkey, golden().values(name, "dk"), tolerance, name + " dk");
    testing::expect_close(gradients.dvalue, golden().values(name, "dv"), tolerance, name + " dv");
  }
}

TEST_P(GoldenReference, CrossEntropyAgrees) {
  for (const std::string& name : golden().cases_of("softmax_cross_entropy")) {
    const auto& parameters = golden().parameters(name);
    const std::vector<std::int32_t> labels = golden().integers(name, "labels");
    const CrossEntropyExtents e{.rows = labels.size(), .columns = parameters.at("columns"), .classes = parameters.at("vocab")};
    const double scale = 1.0 / parameters.at("denominator").get<double>();
    const auto result = softmax_cross_entropy(e, golden().values(name, "logits"), labels, scale);
    expect_same(result.nll, golden().values(name, "nll"), name + " nll");
    expect_same(result.gradient, golden().values(name, "dlogits"), name + " dlogits");
  }
}

TEST_P(GoldenReference, EmbeddingsAgree) {
  const std::string name = "embeddings";
  const std::size_t hidden = golden().parameters(name).at("hidden");
  const EmbeddingIds ids{golden().integers(name, "ids"), golden().integers(name, "positions"), golden().integers(name, "types")};
  const EmbeddingTables<double> tables{golden().values(name, "word"), golden().values(name, "position"), golden().values(name, "type")};
  const Values dy = golden().values(name, "dy");
  expect_same(embeddings_sum(ids, tables, hidden), golden().values(name, "y"), "y");
  expect_same(embedding_gradient(Values(tables.word.size()), dy, ids.token, hidden), golden().values(name, "dword"), "dword");
  expect_same(embedding_gradient(Values(tables.position.size()), dy, ids.position, hidden), golden().values(name, "dposition"),
              "dposition");
  expect_same(embedding_gradient(Values(tables.segment.size()), dy, ids.segment, hidden), golden().values(name, "dtype"), "dtype");
}

TEST_P(GoldenReference, LambAgrees) {
  for (const std::string& name : golden().cases_of("lamb")) {
    const auto& p = golden().parameters(name);
    const double step = p.at("step");
    const LambRates<double> rates{.learning_rate = p.at("lr"),
                                  .bias_correction1 = 1.0 - std::pow(p.at("beta1").get<double>(), step),
                                  .bias_correction2 = 1.0 - std::pow(p.at("beta2").get<double>(), step),
                                  .clip_scale = 1.0,
                                  .beta1 = p.at("beta1"),
                                  .beta2 = p.at("beta2"),
                                  .epsilon = p.at("epsilon"),
                                  .weight_decay = p.at("weight_decay"),
                                  .decay = !p.at("excluded").get<bool>()};
    const auto result = lamb_update(rates, {golden().values(name, "w"), golden().values(name, "m"), golden().values(name, "v")},
                                    golden().values(name, "g"));
    testing::expect_close(result.state.m, golden().values(name, "m_after"), {.relative = 1e-13}, name + " m");
    testing::expect_close(result.state.v, golden().values(name, "v_after"), {.relative = 1e-13}, name + " v");
    testing::expect_close({result.weight_norm, result.update_norm, result.trust_ratio}, {p.at("w_norm"), p.at("u_norm"), p.at("ratio")},
                          {.relative = 1e-13}, name + " norms");
    testing::expect_close(result.state.weight, golden().values(name, "w_after"), {.absolute = 1e-15, .relative = 1e-13}, name + " w");
  }
}

TEST_P(GoldenReference, GlobalNormAgrees) {
  for (const std::string& name : golden().cases_of("global_norm")) {
    std::vector<Values> tensors;
    for (std::size_t i = 0; i < golden().parameters(name).at("sizes").size(); ++i) {
      tensors.push_back(golden().values(name, fmt::format("t{}", i)));
    }
    testing::expect_close({global_norm(tensors)}, {golden().parameters(name).at("norm").get<double>()}, {.relative = 1e-12}, name);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenReference, ::testing::Values("small", "shared"), [](const auto& test) { return test.param; });

}  // namespace
}  // namespace flashbert::reference
