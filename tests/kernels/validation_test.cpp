#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using ::testing::AllOf;
using testing::DeviceTensor;
using ::testing::HasSubstr;
using testing::message_of;
using testing::RowGap;
using testing::TestDevice;

/// Tensors of every shape the tests below need; the memory is never looked at, since each call must be refused before.
class Validation : public testing::OpTest {
 protected:
  /// The call throws an E whose message names op and argument and, where given, says what was wanted.
  template <class E, class Call>
  static void expect_refused(const Call& call, const char* op, const char* argument, const char* wanted = "") {
    EXPECT_THAT(message_of<E>(call), AllOf(HasSubstr(op), HasSubstr(argument), HasSubstr(wanted)));
  }

  DeviceTensor rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor other_rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor third_rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor bf16_rows_{device(), Dtype::kBf16, {4, 16}};
  DeviceTensor wide_rows_{device(), Dtype::kF32, {4, 24}};
  DeviceTensor odd_rows_{device(), Dtype::kF32, {4, 12}};
  DeviceTensor gapped_rows_{device(), Dtype::kF32, {4, 16}, RowGap{8}};
  DeviceTensor square_{device(), Dtype::kF32, {16, 16}};
  DeviceTensor hidden_{device(), Dtype::kF32, {16}};
  DeviceTensor other_hidden_{device(), Dtype::kF32, {16}};
  DeviceTensor tokens_{device(), Dtype::kF32, {4}};
  DeviceTensor other_tokens_{device(), Dtype::kF32, {4}};
  DeviceTensor ids_{device(), Dtype::kI32, {4}};
  DeviceTensor few_ids_{device(), Dtype::kI32, {3}};
  DeviceTensor one_{device(), Dtype::kF32, {1}};
  DeviceTensor one_i32_{device(), Dtype::kI32, {1}};
  DeviceTensor one_i64_{device(), Dtype::kI64, {1}};
  DeviceTensor other_i64_{device(), Dtype::kI64, {1}};
  DeviceTensor one_f64_{device(), Dtype::kF64, {1}};
  DeviceTensor scalars_{device(), Dtype::kF32, {kLambScalars}};
  DeviceTensor samples_{device(), Dtype::kU64, {1}};
};

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

TEST_P(Validation, AttentionNamesTheWrongArgument) {
  const DeviceTensor query(device(), Dtype::kF32, {4, 2, 8});
  const DeviceTensor key(device(), Dtype::kF32, {5, 2, 8});
  const DeviceTensor out(device(), Dtype::kF32, {4, 2, 8});
  const DeviceTensor lse(device(), Dtype::kF32, {2, 4});
  const DeviceTensor keep(device(), Dtype::kU32, {4, 2, 1});
  const DeviceTensor cu(device(), Dtype::kI32, {2});
  const DeviceTensor odd(device(), Dtype::kF32, {4, 2, 12});
  const AttentionForward good{.out = out,
                              .lse = lse,
                              .keep_bits = keep,
                              .inputs = {.query = query,
                                         .key = key,
                                         .value = key,
                                         .cu_queries = cu,
                                         .cu_keys = cu,
                                         .query_position = ids_,
                                         .sample_index = samples_,
                                         .scale = 1.0F,
                                         .dropout = {.rate = 0.1F, .site = DropoutSite::kAttention}}};
  const auto call = [&](const AttentionForward& args) { return [this, args] { ops().attention_forward(args); }; };
  AttentionForward bad = good;
  bad.inputs.query = odd;
  expect_refused<ShapeError>(call(bad), "attention_forward", "query", "multiple of 8");
  bad = good;
  bad.inputs.key = odd;
  expect_refused<ShapeError>(call(bad), "attention_forward", "key");
  bad = good;
  bad.inputs.value = query;
  expect_refused<ShapeError>(call(bad), "attention_forward", "value", "(5, 2, 8)");
  bad = good;
  bad.inputs.cu_keys = ids_;
  expect_refused<ShapeError>(call(bad), "attention_forward", "cu_keys");
  bad = good;
  bad.inputs.cu_queries = tokens_;
  expect_refused<DtypeError>(call(bad), "attention_forward", "cu_queries", "i32");
  bad = good;
  bad.inputs.query_position = {};
  expect_refused<ShapeError>(call(bad), "attention_forward", "query_position", "absent");
  bad = good;
  bad.inputs.sample_index = ids_;
  expect_refused<DtypeError>(call(bad), "attention_forward", "sample_index", "u64");
  bad = good;
  bad.keep_bits = {};
  expect_refused<ShapeError>(call(bad), "attention_forward", "keep_bits", "absent");
  bad = good;
  bad.lse = rows_;
  expect_refused<ShapeError>(call(bad), "attention_forward", "lse", "(2, 4)");
  AttentionBackward backward{
      .dquery = out, .dkey = key, .dvalue = query, .dout = out, .out = out, .lse = lse, .keep_bits = keep, .inputs = good.inputs};
  expect_refused<ShapeError>([&] { ops().attention_backward(backward); }, "attention_backward", "dvalue");
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

TEST_P(Validation, EmbeddingsNameTheWrongArgument) {
  EmbeddingsForward good;
  good.y = rows_;
  good.mean = tokens_;
  good.rstd = other_tokens_;
  good.token_ids = ids_;
  good.position_ids = ids_;
  good.segment_ids = ids_;
  good.word = square_;
  good.position = square_;
  good.segment = square_;
  good.gamma = hidden_;
  good.beta = other_hidden_;
  const auto call = [&](const EmbeddingsForward& args) { return [this, args] { ops().embeddings_forward(args); }; };
  EmbeddingsForward bad = good;
  bad.position = wide_rows_;
  expect_refused<ShapeError>(call(bad), "embeddings_forward", "position");
  bad = good;
  bad.segment_ids = few_ids_;
  expect_refused<ShapeError>(call(bad), "embeddings_forward", "segment_ids", "(4)");
  bad = good;
  bad.y = bf16_rows_;
  expect_refused<DtypeError>(call(bad), "embeddings_forward", "y");
  expect_refused<DtypeError>(
      [&] { ops().embedding_gradient({.dtable = bf16_rows_, .dz = rows_, .order = ids_, .starts = ids_, .ids = ids_, .runs = one_i32_}); },
      "embedding_gradient", "dtable", "f32");
  expect_refused<DtypeError>(
      [&] { ops().embedding_gradient({.dtable = square_, .dz = rows_, .order = ids_, .starts = tokens_, .ids = ids_, .runs = one_i32_}); },
      "embedding_gradient", "starts", "i32");
}

TEST_P(Validation, ElementwiseOpsNameTheWrongArgument) {
  expect_refused<ShapeError>([&] { ops().gelu_forward({.y = wide_rows_, .x = rows_}); }, "gelu_forward", "y", "(4, 16)");
  expect_refused<DtypeError>([&] { ops().gelu_backward({.dx = rows_, .dy = bf16_rows_, .x = rows_}); }, "gelu_backward", "dy");
  expect_refused<ShapeError>([&] { ops().tanh_forward({.y = gapped_rows_, .x = rows_}); }, "tanh_forward", "y", "contiguous");
  expect_refused<ShapeError>([&] { ops().tanh_backward({.dx = {}, .dy = rows_, .y = rows_}); }, "tanh_backward", "dx", "absent");
  expect_refused<ShapeError>([&] { ops().gather_rows({.out = rows_, .in = square_, .index = few_ids_}); }, "gather_rows", "index", "(4)");
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
