#include <gtest/gtest.h>

#include <vector>

#include "finite_difference.h"
#include "reference/cross_entropy.h"
#include "reference/elementwise.h"
#include "reference/embeddings.h"
#include "reference/layer_norm.h"
#include "reference/linear.h"
#include "support/random_values.h"

namespace flashbert::reference {
namespace {

using testing::RandomValues;
using Values = std::vector<double>;

TEST(LinearReference, GradientsMatchFiniteDifferences) {
  RandomValues random(31);
  const LinearExtents e{.rows = 4, .in = 3, .out = 5};
  const Values x = random.values(12, Dtype::kF64);
  const Values weight = random.values(15, Dtype::kF64);
  const Values bias = random.values(5, Dtype::kF64);
  const Values dy = random.values(20, Dtype::kF64);
  expect_gradient([&](const Values& v) { return weighted(linear_forward(e, v, weight, bias), dy); }, x,
                  linear_input_gradient(e, dy, weight, {}), "dx");
  const auto gradients = linear_weight_gradient<double>(e, dy, x, {});
  expect_gradient([&](const Values& v) { return weighted(linear_forward(e, x, v, bias), dy); }, weight, gradients.weight, "dweight");
  expect_gradient([&](const Values& v) { return weighted(linear_forward(e, x, weight, v), dy); }, bias, gradients.bias, "dbias");
}

TEST(LinearReference, GradientThroughGeluMatchesFiniteDifferences) {
  // gelu(z) W^T with z of the layer below; its bias moves whole columns of z.
  RandomValues random(36);
  const LinearExtents e{.rows = 4, .in = 3, .out = 5};
  const Values z = random.values(12, Dtype::kF64, 2.0);
  const Values weight = random.values(15, Dtype::kF64);
  const Values dy = random.values(20, Dtype::kF64);
  const auto exactly = [](double x) { return x; };
  const auto function = [&](const Values& v) {
    Values x;
    for (const double value : v) x.push_back(gelu(value));
    return weighted(linear_forward<double>(e, x, weight, {}), dy);
  };
  const Values dz = linear_gelu_input_gradient(e, dy, weight, z, exactly);
  expect_gradient(function, z, dz, "dz");
  const auto of_bias = [&](const Values& bias) {
    Values v = z;
    for (std::size_t i = 0; i < v.size(); ++i) v[i] += bias[i % e.in];
    return function(v);
  };
  expect_gradient(of_bias, Values(e.in, 0.0), column_sums<double>(dz, e.in, {}), "dbias");
}

TEST(LinearReference, GeluFollowsTheProduct) {
  const LinearExtents e{.rows = 1, .in = 2, .out = 1};
  const Values y = linear_gelu_forward<double>(e, {1.0, 2.0}, {0.5, -1.0}, {0.25}, [](double x) { return x; });
  EXPECT_EQ(y, Values{gelu(0.5 - 2.0 + 0.25)});
}

TEST(LinearReference, AddsToWhatIsThere) {
  RandomValues random(32);
  const LinearExtents e{.rows = 2, .in = 3, .out = 2};
  const Values x = random.values(6, Dtype::kF64);
  const Values weight = random.values(6, Dtype::kF64);
  const Values dy = random.values(4, Dtype::kF64);
  const Values old(6, 10.0);
  const Values fresh = linear_input_gradient(e, dy, weight, {});
  const Values added = linear_input_gradient(e, dy, weight, old);
  const auto fresh_parameters = linear_weight_gradient<double>(e, dy, x, {});
  const auto added_parameters = linear_weight_gradient<double>(e, dy, x, {old, {10.0, 10.0}});
  for (std::size_t i = 0; i < old.size(); ++i) {
    EXPECT_NEAR(added[i], fresh[i] + 10.0, 1e-14 * 20.0);
    EXPECT_NEAR(added_parameters.weight[i], fresh_parameters.weight[i] + 10.0, 1e-14 * 20.0);
  }
}

TEST(LayerNormReference, GradientsMatchFiniteDifferences) {
  RandomValues random(33);
  constexpr double kEps = 1e-3;
  const NormExtents e{.rows = 3, .hidden = 8};
  const Values z = random.values(24, Dtype::kF64, 2.0);
  const Values gamma = random.values(8, Dtype::kF64);
  const Values beta = random.values(8, Dtype::kF64);
  const Values dy = random.values(24, Dtype::kF64);
  const NormForward<double> forward = layer_norm_forward(e, z, gamma, beta, kEps);
  const NormBackward<double> backward = layer_norm_backward(e, dy, {z, forward.mean, forward.rstd, gamma});
  expect_gradient([&](const Values& v) { return weighted(layer_norm_forward(e, v, gamma, beta, kEps).y, dy); }, z, backward.dz, "dz");
  expect_gradient([&](const Values& v) { return weighted(layer_norm_forward(e, z, v, beta, kEps).y, dy); }, gamma, backward.dgamma,
                  "dgamma");
  expect_gradient([&](const Values& v) { return weighted(layer_norm_forward(e, z, gamma, v, kEps).y, dy); }, beta, backward.dbeta, "dbeta");
}

TEST(GeluReference, SlopeMatchesFiniteDifferences) {
  RandomValues random(34);
  const Values x = random.values(40, Dtype::kF64, 4.0);
  const Values dy = random.values(40, Dtype::kF64);
  Values gradient;
  for (std::size_t i = 0; i < x.size(); ++i) gradient.push_back(dy[i] * gelu_slope(x[i]));
  const auto forward = [](const Values& v) {
    Values y;
    for (const double value : v) y.push_back(gelu(value));
    return y;
  };
  expect_gradient([&](const Values& v) { return weighted(forward(v), dy); }, x, gradient, "dx");
}

TEST(GeluReference, IsTheTanhForm) {
  for (double x = -6.0; x <= 6.0; x += 0.125) {
    const double want = 0.5 * x * (1.0 + std::tanh(kGeluRoot * (x + kGeluCube * x * x * x)));
    EXPECT_NEAR(gelu(x), want, 4.0 * std::abs(x) * 0x1p-53 + 1e-300) << x;
  }
}

TEST(TanhReference, GradientMatchesFiniteDifferences) {
  RandomValues random(35);
  const Values x = random.values(20, Dtype::kF64, 2.0);
  const Values dy = random.values(20, Dtype::kF64);
  Values gradient;
  for (std::size_t i = 0; i < x.size(); ++i) gradient.push_back(tanh_gradient(dy[i], std::tanh(x[i])));
  const auto forward = [](const Values& v) {
    Values y;
    for (const double value : v) y.push_back(std::tanh(value));
    return y;
  };
  expect_gradient([&](const Values& v) { return weighted(forward(v), dy); }, x, gradient, "dx");
}

TEST(CrossEntropyReference, GradientMatchesFiniteDifferences) {
  RandomValues random(36);
  const CrossEntropyExtents e{.rows = 4, .columns = 7, .classes = 5};
  const Values logits = random.values(28, Dtype::kF64, 3.0);
  const std::vector<std::int32_t> labels = {0, 4, -1, 2};
  constexpr double kScale = 0.5;
  const auto result = softmax_cross_entropy(e, logits, labels, kScale);
  EXPECT_EQ(result.counted, 3);
  expect_gradient([&](const Values& v) { return weighted(softmax_cross_entropy(e, v, labels, kScale).nll, Values(4, kScale)); }, logits,
                  result.gradient, "dlogits");
}

TEST(EmbeddingReference, GradientsMatchFiniteDifferences) {
  RandomValues random(37);
  constexpr std::size_t kHidden = 3;
  const EmbeddingIds ids{.token = {1, 0, 1, 3, 1}, .position = {0, 1, 0, 1, 2}, .segment = {0, 1, 1, 0, 1}};
  const EmbeddingTables<double> tables{random.values(12, Dtype::kF64), random.values(9, Dtype::kF64), random.values(6, Dtype::kF64)};
  const Values dz = random.values(15, Dtype::kF64);
  expect_gradient(
      [&](const Values& v) {
        return weighted(embeddings_sum<double>(ids, {v, tables.position, tables.segment}, kHidden), dz);
      },
      tables.word, embedding_gradient(Values(12), dz, ids.token, kHidden), "dword");
  expect_gradient(
      [&](const Values& v) {
        return weighted(embeddings_sum<double>(ids, {tables.word, v, tables.segment}, kHidden), dz);
      },
      tables.position, embedding_gradient(Values(9), dz, ids.position, kHidden), "dposition");
  expect_gradient(
      [&](const Values& v) {
        return weighted(embeddings_sum<double>(ids, {tables.word, tables.position, v}, kHidden), dz);
      },
      tables.segment, embedding_gradient(Values(6), dz, ids.segment, kHidden), "dsegment");
}

TEST(RowsReference, ScatterIsTheGradientOfGather) {
  RandomValues random(38);
  const std::vector<std::int32_t> index = {2, -1, 0};
  const Values in = random.values(8, Dtype::kF64);
  const Values dout = random.values(6, Dtype::kF64);
  expect_gradient([&](const Values& v) { return weighted(gather_rows(v, index, 2), dout); }, in,
                  scatter_add_rows(Values(8, 0.0), dout, index, 2), "din");
}

TEST(Estimates, HaveTheValuesOfTheDoubles) {
  RandomValues random(39);
  const NormExtents e{.rows = 2, .hidden = 8};
  const Values z = random.values(16, Dtype::kF64);
  const Values gamma = random.values(8, Dtype::kF64);
  const auto in_double = layer_norm_forward(e, z, gamma, gamma, 1e-12);
  const auto in_estimates = layer_norm_forward(e, testing::exact(z), testing::exact(gamma), testing::exact(gamma), 1e-12);
  EXPECT_EQ(testing::values_of(in_estimates.y), in_double.y);
}

}  // namespace
}  // namespace flashbert::reference
