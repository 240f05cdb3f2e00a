#include <gtest/gtest.h>

#include <vector>

#include "validation_support.h"

namespace flashbert {
namespace {

using testing::DeviceTensor;

class Validation : public testing::ValidationTest {};

TEST_P(Validation, LinearForwardNamesTheWrongArgument) {
  const LinearForward good{.y = rows_, .x = other_rows_, .weights = {square_, {}}, .bias = hidden_};
  const auto call = [&](const LinearForward& args) { return [this, args] { ops().linear_forward(args); }; };
  LinearForward bad = good;
  bad.x = wide_rows_;
  expect_refused<ShapeError>(call(bad), "linear_forward", "x", "(4, 16)");
  bad = good;
  bad.x = bf16_rows_;
  expect_refused<DtypeError>(call(bad), "linear_forward", "x", "f32");
  bad = good;
  bad.y = wide_rows_;
  expect_refused<ShapeError>(call(bad), "linear_forward", "y", "(4, 16)");
  bad = good;
  bad.y = other_rows_;
  expect_refused<ShapeError>(call(bad), "linear_forward", "y", "alias");
  bad = good;
  bad.bias = tokens_;
  expect_refused<ShapeError>(call(bad), "linear_forward", "bias", "(16)");
  bad = good;
  bad.weights.weight = {};
  expect_refused<ShapeError>(call(bad), "linear_forward", "weight", "absent");
}

TEST_P(Validation, ProductsWithGeluNameTheWrongArgument) {
  LinearForward forward{
      .y = rows_, .x = other_rows_, .weights = {square_, {}}, .bias = {}, .activation = Activation::kGelu, .before_gelu = wide_rows_};
  const auto call = [&](const LinearForward& args) { return [this, args] { ops().linear_forward(args); }; };
  expect_refused<ShapeError>(call(forward), "linear_forward", "before_gelu", "(4, 16)");
  forward.before_gelu = bf16_rows_;
  expect_refused<DtypeError>(call(forward), "linear_forward", "before_gelu", "f32");
  forward.before_gelu = rows_;
  expect_refused<ShapeError>(call(forward), "linear_forward", "before_gelu", "alias y");
  forward.before_gelu = other_rows_;
  expect_refused<ShapeError>(call(forward), "linear_forward", "before_gelu", "alias x");
  forward.activation = Activation::kNone;
  expect_refused<ShapeError>(call(forward), "linear_forward", "before_gelu", "GELU");

  const DeviceTensor kept(device(), Dtype::kF32, {4, 16});
  const LinearInputGradient good{.dx = rows_, .dy = other_rows_, .weights = {square_, {}}, .before_gelu = kept, .dbias = hidden_};
  const auto gradient = [&](const LinearInputGradient& args) { return [this, args] { ops().linear_input_gradient(args); }; };
  LinearInputGradient bad = good;
  bad.before_gelu = wide_rows_;
  expect_refused<ShapeError>(gradient(bad), "linear_input_gradient", "before_gelu", "(4, 16)");
  bad = good;
  bad.before_gelu = bf16_rows_;
  expect_refused<DtypeError>(gradient(bad), "linear_input_gradient", "before_gelu", "f32");
  bad = good;
  bad.before_gelu = rows_;
  expect_refused<ShapeError>(gradient(bad), "linear_input_gradient", "before_gelu", "alias dx");
  bad = good;
  bad.accumulate = Accumulate::kAdd;
  expect_refused<ShapeError>(gradient(bad), "linear_input_gradient", "before_gelu", "kOverwrite");
  bad = good;
  bad.before_gelu = {};
  expect_refused<ShapeError>(gradient(bad), "linear_input_gradient", "dbias", "before_gelu");
  bad = good;
  bad.dbias = tokens_;
  expect_refused<ShapeError>(gradient(bad), "linear_input_gradient", "dbias", "(16)");
}

TEST_P(Validation, LinearGradientsNameTheWrongArgument) {
  expect_refused<ShapeError>(
      [&] {
        ops().linear_input_gradient({.dx = wide_rows_, .dy = rows_, .weights = {square_, {}}});
      },
      "linear_input_gradient", "dx");
  expect_refused<DtypeError>(
      [&] {
        ops().linear_input_gradient({.dx = bf16_rows_, .dy = rows_, .weights = {square_, {}}});
      },
      "linear_input_gradient", "dx");
  expect_refused<ShapeError>([&] { ops().linear_weight_gradient({.dweight = rows_, .dbias = {}, .dy = rows_, .x = other_rows_}); },
                             "linear_weight_gradient", "dweight", "(16, 16)");
  expect_refused<DtypeError>([&] { ops().linear_weight_gradient({.dweight = square_, .dbias = {}, .dy = rows_, .x = bf16_rows_}); },
                             "linear_weight_gradient", "x");
  expect_refused<ShapeError>([&] { ops().linear_weight_gradient({.dweight = square_, .dbias = tokens_, .dy = rows_, .x = other_rows_}); },
                             "linear_weight_gradient", "dbias");
  expect_refused<DtypeError>([&] { ops().linear_pack({.weights = {ids_.view().reshape({2, 2}), {}}}); }, "linear_pack", "weight");
}

TEST_P(Validation, LayerNormNamesTheWrongArgument) {
  DropoutAddLayerNormForward good;
  good.y = rows_;
  good.mean = tokens_;
  good.rstd = other_tokens_;
  good.x = other_rows_;
  good.gamma = hidden_;
  good.beta = other_hidden_;
  const auto call = [&](const DropoutAddLayerNormForward& args) { return [this, args] { ops().dropout_add_layer_norm_forward(args); }; };
  const char* const op = "dropout_add_layer_norm_forward";
  DropoutAddLayerNormForward bad = good;
  bad.x = odd_rows_;
  expect_refused<ShapeError>(call(bad), op, "x", "multiple of 8");
  bad = good;
  bad.y = other_rows_;
  expect_refused<ShapeError>(call(bad), op, "y", "alias");
  bad = good;
  bad.residual = bf16_rows_;
  expect_refused<DtypeError>(call(bad), op, "residual", "f32");
  bad = good;
  bad.mean = hidden_;
  expect_refused<ShapeError>(call(bad), op, "mean", "(4)");
  bad = good;
  bad.beta = {};
  expect_refused<ShapeError>(call(bad), op, "beta", "absent");
  bad = good;
  bad.dropout.rate = 0.1F;
  expect_refused<ShapeError>(call(bad), op, "keep_bits", "absent");
  DropoutAddLayerNormBackward backward;
  backward.dz = rows_;
  backward.dgamma = hidden_;
  backward.dbeta = other_hidden_;
  backward.dy = other_rows_;
  backward.z = wide_rows_;
  expect_refused<ShapeError>([&] { ops().dropout_add_layer_norm_backward(backward); }, "dropout_add_layer_norm_backward", "z");
  backward.z = third_rows_;
  backward.dropout.rate = 0.1F;
  expect_refused<ShapeError>([&] { ops().dropout_add_layer_norm_backward(backward); }, "dropout_add_layer_norm_backward", "dx");
}

TEST_P(Validation, ElementwiseOpsNameTheWrongArgument) {
  expect_refused<ShapeError>([&] { ops().gelu_forward({.y = wide_rows_, .x = rows_}); }, "gelu_forward", "y", "(4, 16)");
  expect_refused<DtypeError>([&] { ops().gelu_backward({.dx = rows_, .dy = bf16_rows_, .x = rows_}); }, "gelu_backward", "dy");
  expect_refused<ShapeError>([&] { ops().tanh_forward({.y = gapped_rows_, .x = rows_}); }, "tanh_forward", "y", "contiguous");
  expect_refused<ShapeError>([&] { ops().tanh_backward({.dx = {}, .dy = rows_, .y = rows_}); }, "tanh_backward", "dx", "absent");
  expect_refused<ShapeError>([&] { ops().gather_rows({.out = rows_, .in = square_, .index = few_ids_}); }, "gather_rows", "index", "(4)");
  expect_refused<DtypeError>(
      [&] {
        ops().gather_rows({.out = ids_.view().reshape({2, 2}), .in = ids_.view().reshape({2, 2}), .index = ids_});
      },
      "gather_rows", "in", "f32 or bf16");
  expect_refused<ShapeError>([&] { ops().gather_rows({.out = rows_, .in = rows_, .index = ids_}); }, "gather_rows", "out", "alias in");
  expect_refused<ShapeError>([&] { ops().scatter_add_rows({.out = rows_, .in = rows_, .index = ids_}); }, "scatter_add_rows", "out",
                             "alias in");
  expect_refused<DtypeError>([&] { ops().scatter_add_rows({.out = square_, .in = rows_, .index = tokens_}); }, "scatter_add_rows", "index");
  expect_refused<ShapeError>([&] { ops().cast({.to = wide_rows_, .from = rows_}); }, "cast", "to");
  expect_refused<DtypeError>([&] { ops().cast({.to = ids_, .from = tokens_}); }, "cast", "to", "f32 or bf16");
  expect_refused<DtypeError>([&] { ops().scaled_copy({.y = bf16_rows_, .x = rows_, .scale = {}}); }, "scaled_copy", "y");
  expect_refused<ShapeError>([&] { ops().scaled_copy({.y = other_rows_, .x = rows_, .scale = tokens_}); }, "scaled_copy", "scale", "(1)");
  expect_refused<ShapeError>([&] { ops().fill_zero(gapped_rows_); }, "fill_zero", "tensor", "contiguous");
}

TEST_P(Validation, CrossEntropyNamesTheWrongArgument) {
  const SoftmaxCrossEntropy good{
      .logits = rows_, .labels = ids_, .scale = one_, .counters = {one_f64_, one_i64_, other_i64_}, .classes = 16};
  const auto call = [&](const SoftmaxCrossEntropy& args) { return [this, args] { ops().softmax_cross_entropy(args); }; };
  const char* const op = "softmax_cross_entropy";
  SoftmaxCrossEntropy bad = good;
  bad.classes = 17;
  expect_refused<ShapeError>(call(bad), op, "classes");
  bad.classes = 0;
  expect_refused<ShapeError>(call(bad), op, "classes");
  bad = good;
  bad.labels = few_ids_;
  expect_refused<ShapeError>(call(bad), op, "labels", "(4)");
  bad = good;
  bad.scale = {};
  expect_refused<ShapeError>(call(bad), op, "scale", "absent");
  bad = good;
  bad.counters.nll_sum = one_;
  expect_refused<DtypeError>(call(bad), op, "nll_sum", "f64");
  bad = good;
  bad.logits = ids_;
  expect_refused<ShapeError>(call(bad), op, "logits");
}

TEST_P(Validation, OptimizerOpsNameTheWrongArgument) {
  const std::vector<ConstTensor> bf16_tensors = {bf16_rows_};
  expect_refused<DtypeError>(
      [&] {
        ops().global_norm({.result = {one_, one_, one_i32_}, .tensors = bf16_tensors});
      },
      "global_norm", "tensors");
  expect_refused<DtypeError>([&] { ops().global_norm({.result = {one_, one_, one_}, .tensors = {}}); }, "global_norm", "first_bad", "i32");
  const LambParameter good{.weight = rows_, .m = other_rows_, .v = third_rows_, .compute = bf16_rows_, .gradient = other_rows_};
  const auto call = [&](const LambParameter& parameter, const DeviceTensor& norms) {
    return [this, parameter, &norms] {
      const std::vector<LambParameter> parameters = {parameter};
      ops().lamb_update({.parameters = parameters,
                         .scalars = scalars_,
                         .clip_scale = one_,
                         .first_bad = one_i32_,
                         .weight_norm = norms,
                         .update_norm = one_,
                         .trust_ratio = one_});
    };
  };
  expect_refused<ShapeError>(call(good, tokens_), "lamb_update", "weight_norm", "(1)");
  LambParameter bad = good;
  bad.v = wide_rows_;
  expect_refused<ShapeError>(call(bad, one_), "lamb_update", "v", "(4, 16)");
  bad = good;
  bad.compute = rows_;
  expect_refused<DtypeError>(call(bad, one_), "lamb_update", "compute", "bf16");
  bad = good;
  bad.gradient = gapped_rows_;
  expect_refused<ShapeError>(call(bad, one_), "lamb_update", "gradient", "contiguous");
}

FLASHBERT_FOR_DEVICES(Validation);

}  // namespace
}  // namespace flashbert
