#include <gtest/gtest.h>

#include <memory>

#include "validation_support.h"

// Refusals of attention and of what finds its rows by sequence or by sorted lists.
namespace flashbert {
namespace {

using testing::DeviceTensor;

class ValidationOfSequences : public testing::ValidationTest {};

TEST_P(ValidationOfSequences, AttentionNamesTheWrongArgument) {
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
  bad = good;
  bad.out = query;
  expect_refused<ShapeError>(call(bad), "attention_forward", "out", "alias query");
}

TEST_P(ValidationOfSequences, AttentionBackwardNamesTheWrongArgument) {
  const auto queries = [&] { return std::make_unique<DeviceTensor>(device(), Dtype::kF32, Shape{4, 2, 8}); };
  const auto keys = [&] { return std::make_unique<DeviceTensor>(device(), Dtype::kF32, Shape{5, 2, 8}); };
  const auto query = queries();
  const auto dquery = queries();
  const auto dout = queries();
  const auto out = queries();
  const auto key = keys();
  const auto value = keys();
  const auto dkey = keys();
  const auto dvalue = keys();
  const DeviceTensor lse(device(), Dtype::kF32, {2, 4});
  const DeviceTensor cu(device(), Dtype::kI32, {2});
  const AttentionBackward good{.dquery = *dquery,
                               .dkey = *dkey,
                               .dvalue = *dvalue,
                               .dout = *dout,
                               .out = *out,
                               .lse = lse,
                               .keep_bits = {},
                               .inputs = {.query = *query,
                                          .key = *key,
                                          .value = *value,
                                          .cu_queries = cu,
                                          .cu_keys = cu,
                                          .query_position = {},
                                          .sample_index = {},
                                          .scale = 1.0F,
                                          .dropout = {}}};
  const auto call = [&](const AttentionBackward& args) { return [this, args] { ops().attention_backward(args); }; };
  AttentionBackward bad = good;
  bad.dvalue = *dquery;
  expect_refused<ShapeError>(call(bad), "attention_backward", "dvalue", "(5, 2, 8)");
  bad = good;
  bad.lse = rows_;
  expect_refused<ShapeError>(call(bad), "attention_backward", "lse", "(2, 4)");
  bad = good;
  bad.dquery = *query;
  expect_refused<ShapeError>(call(bad), "attention_backward", "dquery", "alias query");
  bad = good;
  bad.dkey = *value;
  expect_refused<ShapeError>(call(bad), "attention_backward", "dkey", "alias value");
  bad = good;
  bad.dquery = *dout;
  expect_refused<ShapeError>(call(bad), "attention_backward", "dquery", "alias dout");
  bad = good;
  bad.dquery = *out;
  expect_refused<ShapeError>(call(bad), "attention_backward", "dquery", "alias out");
}

TEST_P(ValidationOfSequences, EmbeddingsNameTheWrongArgument) {
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
  bad = good;
  bad.z = rows_;
  expect_refused<ShapeError>(call(bad), "embeddings_forward", "y", "alias z");
  const DeviceTensor table(device(), Dtype::kF32, {4, 16});
  bad = good;
  bad.y = table;
  bad.position = table;
  expect_refused<ShapeError>(call(bad), "embeddings_forward", "y", "alias position");
  bad = good;
  bad.z = table;
  bad.word = table;
  expect_refused<ShapeError>(call(bad), "embeddings_forward", "z", "alias word");
  EmbeddingsBackward backward;
  backward.dz = rows_;
  backward.dgamma = hidden_;
  backward.dbeta = other_hidden_;
  backward.dy = other_rows_;
  backward.z = rows_;
  expect_refused<ShapeError>([&] { ops().embeddings_backward(backward); }, "embeddings_backward", "dz", "alias z");
}

TEST_P(ValidationOfSequences, OriginsNeedASampleIndex) {
  const DeviceTensor keep(device(), Dtype::kU32, {4, 1});
  const DeviceTensor none(device(), Dtype::kU64, {0});
  const DeviceTensor square(device(), Dtype::kU64, {1, 1});
  DropoutAddLayerNormForward good;
  good.y = rows_;
  good.mean = tokens_;
  good.rstd = other_tokens_;
  good.x = other_rows_;
  good.gamma = hidden_;
  good.beta = other_hidden_;
  good.keep_bits = keep;
  good.dropout.rate = 0.1F;
  good.origin = {.sequence = ids_, .position = ids_, .sample_index = samples_};
  const char* const op = "dropout_add_layer_norm_forward";
  const auto call = [&](const ConstTensor& index) {
    DropoutAddLayerNormForward args = good;
    args.origin.sample_index = index;
    return [this, args] { ops().dropout_add_layer_norm_forward(args); };
  };
  expect_refused<ShapeError>(call({}), op, "origin.sample_index", "absent");
  expect_refused<DtypeError>(call(ids_), op, "origin.sample_index", "u64");
  expect_refused<ShapeError>(call(square), op, "origin.sample_index", "2 axes");
  expect_refused<ShapeError>(call(none), op, "origin.sample_index", "empty");
}

TEST_P(ValidationOfSequences, EmbeddingGradientNamesTheWrongArgument) {
  const DeviceTensor starts(device(), Dtype::kI32, {5});
  const EmbeddingGradient good{.dtable = square_, .dz = rows_, .order = ids_, .starts = starts, .ids = ids_, .runs = one_i32_};
  const auto call = [&](const EmbeddingGradient& args) { return [this, args] { ops().embedding_gradient(args); }; };
  EmbeddingGradient bad = good;
  bad.order = few_ids_;
  expect_refused<ShapeError>(call(bad), "embedding_gradient", "order", "(4)");
  bad = good;
  bad.starts = ids_;
  expect_refused<ShapeError>(call(bad), "embedding_gradient", "starts", "(5)");
  bad = good;
  bad.ids = ids_.view().reshape({2, 2});
  expect_refused<ShapeError>(call(bad), "embedding_gradient", "ids", "2 axes");
  bad = good;
  bad.dtable = rows_;
  expect_refused<ShapeError>(call(bad), "embedding_gradient", "dtable", "alias dz");
  bad = good;
  bad.dtable = wide_rows_;
  expect_refused<ShapeError>(call(bad), "embedding_gradient", "dtable", "16");
  expect_refused<DtypeError>(
      [&] { ops().embedding_gradient({.dtable = bf16_rows_, .dz = rows_, .order = ids_, .starts = ids_, .ids = ids_, .runs = one_i32_}); },
      "embedding_gradient", "dtable", "f32");
  expect_refused<DtypeError>(
      [&] { ops().embedding_gradient({.dtable = square_, .dz = rows_, .order = ids_, .starts = tokens_, .ids = ids_, .runs = one_i32_}); },
      "embedding_gradient", "starts", "i32");
}

FLASHBERT_FOR_DEVICES(ValidationOfSequences);

}  // namespace
}  // namespace flashbert
