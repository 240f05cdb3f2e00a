#include "kernels/ops.h"

#include "kernels/validate.h"

namespace flashbert {

void Ops::upload(Tensor to, const void* from) {
  const ArgumentCheck check("upload");
  check.present("to", to);
  check.contiguous("to", to);
  if (to.elements() > 0) do_upload(to, from);
}

void Ops::download(void* to, ConstTensor from) {
  const ArgumentCheck check("download");
  check.present("from", from);
  check.contiguous("from", from);
  if (from.elements() > 0) do_download(to, from);
}

void Ops::fill_zero(Tensor tensor) {
  const ArgumentCheck check("fill_zero");
  check.present("tensor", tensor);
  check.contiguous("tensor", tensor);
  if (tensor.elements() > 0) do_fill_zero(tensor);
}

void Ops::linear_pack(const LinearPack& args) {
  const ArgumentCheck check("linear_pack");
  check.present("weights.weight", args.weights.weight);
  check.rank("weights.weight", args.weights.weight, 2);
  check.compute_dtype("weights.weight", args.weights.weight);
  if (args.weights.pack) do_linear_pack(args);
}

void Ops::linear_forward(const LinearForward& args) {
  const ArgumentCheck check("linear_forward");
  const ConstTensor& weight = args.weights.weight;
  check.present("weights.weight", weight);
  check.rank("weights.weight", weight, 2);
  check.compute_dtype("weights.weight", weight);
  check.present("x", args.x);
  check.rank("x", args.x, 2);
  check.tensor("x", args.x, weight.dtype(), {args.x.extent(0), weight.extent(1)});
  check.present("y", args.y);
  check.compute_dtype("y", args.y);
  check.shape("y", args.y, {args.x.extent(0), weight.extent(0)});
  check.that(!same_memory(args.y, args.x), "y", "must not alias x");
  if (args.bias) check.dense("bias", args.bias, Dtype::kF32, {weight.extent(0)});
  do_linear_forward(args);
}

void Ops::linear_input_gradient(const LinearInputGradient& args) {
  const ArgumentCheck check("linear_input_gradient");
  const ConstTensor& weight = args.weights.weight;
  check.present("weights.weight", weight);
  check.rank("weights.weight", weight, 2);
  check.compute_dtype("weights.weight", weight);
  check.present("dy", args.dy);
  check.rank("dy", args.dy, 2);
  check.tensor("dy", args.dy, weight.dtype(), {args.dy.extent(0), weight.extent(0)});
  check.tensor("dx", args.dx, weight.dtype(), {args.dy.extent(0), weight.extent(1)});
  check.that(!same_memory(args.dx, args.dy), "dx", "must not alias dy");
  do_linear_input_gradient(args);
}

void Ops::linear_weight_gradient(const LinearWeightGradient& args) {
  const ArgumentCheck check("linear_weight_gradient");
  check.present("dy", args.dy);
  check.present("x", args.x);
  check.rank("dy", args.dy, 2);
  check.rank("x", args.x, 2);
  check.compute_dtype("dy", args.dy);
  check.tensor("x", args.x, args.dy.dtype(), {args.dy.extent(0), args.x.extent(1)});
  check.tensor("dweight", args.dweight, Dtype::kF32, {args.dy.extent(1), args.x.extent(1)});
  if (args.dbias) check.dense("dbias", args.dbias, Dtype::kF32, {args.dy.extent(1)});
  do_linear_weight_gradient(args);
}

namespace {

void check_attention(const ArgumentCheck& check, const AttentionInputs& in) {
  check.present("query", in.query);
  check.rank("query", in.query, 3);
  check.compute_dtype("query", in.query);
  const std::int64_t heads = in.query.extent(1);
  const std::int64_t head_dim = in.query.extent(2);
  check.that(head_dim % 8 == 0 && head_dim > 0 && head_dim <= 256, "query", "has a head size that is not a multiple of 8 up to 256");
  check.present("key", in.key);
  check.rank("key", in.key, 3);
  check.tensor("key", in.key, in.query.dtype(), {in.key.extent(0), heads, head_dim});
  check.tensor("value", in.value, in.query.dtype(), in.key.shape());
  check.present("cu_queries", in.cu_queries);
  check.rank("cu_queries", in.cu_queries, 1);
  check.that(in.cu_queries.extent(0) >= 1, "cu_queries", "has no entry; it needs the number of sequences + 1");
  check.dense("cu_queries", in.cu_queries, Dtype::kI32, in.cu_queries.shape());
  check.dense("cu_keys", in.cu_keys, Dtype::kI32, in.cu_queries.shape());
  if (!in.dropout.active()) return;
  check.dense("query_position", in.query_position, Dtype::kI32, {in.query.extent(0)});
  check.dense("sample_index", in.sample_index, Dtype::kU64, {in.cu_queries.extent(0) - 1});
}

void check_keep_bits(const ArgumentCheck& check, const AttentionInputs& in, const ConstTensor& keep_bits) {
  if (!in.dropout.active()) return;
  check.present("keep_bits", keep_bits);
  check.rank("keep_bits", keep_bits, 3);
  check.dense("keep_bits", keep_bits, Dtype::kU32, {in.query.extent(0), in.query.extent(1), keep_bits.extent(2)});
}

}  // namespace

void Ops::attention_forward(const AttentionForward& args) {
  const ArgumentCheck check("attention_forward");
  check_attention(check, args.inputs);
  check.tensor("out", args.out, args.inputs.query.dtype(), args.inputs.query.shape());
  check.dense("lse", args.lse, Dtype::kF32, {args.inputs.query.extent(0), args.inputs.query.extent(1)});
  check_keep_bits(check, args.inputs, args.keep_bits);
  do_attention_forward(args);
}

void Ops::attention_backward(const AttentionBackward& args) {
  const ArgumentCheck check("attention_backward");
  const AttentionInputs& in = args.inputs;
  check_attention(check, in);
  const Dtype dtype = in.query.dtype();
  check.tensor("dquery", args.dquery, dtype, in.query.shape());
  check.tensor("dkey", args.dkey, dtype, in.key.shape());
  check.tensor("dvalue", args.dvalue, dtype, in.key.shape());
  check.tensor("dout", args.dout, dtype, in.query.shape());
  check.tensor("out", args.out, dtype, in.query.shape());
  check.dense("lse", args.lse, Dtype::kF32, {in.query.extent(0), in.query.extent(1)});
  check_keep_bits(check, in, args.keep_bits);
  do_attention_backward(args);
}

namespace {

/// (T, H) of the op's type, H a multiple of 8; returns nothing, throws.
void check_rows(const ArgumentCheck& check, const char* name, const ConstTensor& x) {
  check.present(name, x);
  check.rank(name, x, 2);
  check.compute_dtype(name, x);
  check.that(x.extent(1) % 8 == 0 && x.extent(1) > 0, name, "has a hidden size that is not a positive multiple of 8");
}

struct NormArguments {
  ConstTensor mean, rstd, gamma;
};
void check_norm(const ArgumentCheck& check, const Shape& rows, const NormArguments& a) {
  check.dense("mean", a.mean, Dtype::kF32, {rows[0]});
  check.dense("rstd", a.rstd, Dtype::kF32, {rows[0]});
  check.dense("gamma", a.gamma, Dtype::kF32, {rows[1]});
}

void check_row_keep_bits(const ArgumentCheck& check, const Shape& rows, const Dropout& dropout, const ConstTensor& keep_bits) {
  if (dropout.active()) check.tensor("keep_bits", keep_bits, Dtype::kU32, {rows[0], keep_words(rows[1])});
}

void check_origin(const ArgumentCheck& check, const Shape& rows, const Dropout& dropout, const RowOrigin& origin) {
  if (!dropout.active()) return;
  check.dense("origin.sequence", origin.sequence, Dtype::kI32, {rows[0]});
  check.dense("origin.position", origin.position, Dtype::kI32, {rows[0]});
  check.present("origin.sample_index", origin.sample_index);
  check.dtype("origin.sample_index", origin.sample_index, Dtype::kU64);
}

}  // namespace

void Ops::dropout_add_layer_norm_forward(const DropoutAddLayerNormForward& args) {
  const ArgumentCheck check("dropout_add_layer_norm_forward");
  check_rows(check, "x", args.x);
  const Shape rows = args.x.shape();
  check.tensor("y", args.y, args.x.dtype(), rows);
  check.that(!same_memory(args.y, args.x) && !same_memory(args.y, args.residual) && !same_memory(args.y, args.z), "y",
             "must alias nothing");
  if (args.residual) check.tensor("residual", args.residual, args.x.dtype(), rows);
  if (args.z) check.tensor("z", args.z, args.x.dtype(), rows);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("beta", args.beta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  check_origin(check, rows, args.dropout, args.origin);
  do_dropout_add_layer_norm_forward(args);
}

void Ops::dropout_add_layer_norm_backward(const DropoutAddLayerNormBackward& args) {
  const ArgumentCheck check("dropout_add_layer_norm_backward");
  check_rows(check, "dy", args.dy);
  const Shape rows = args.dy.shape();
  check.tensor("z", args.z, args.dy.dtype(), rows);
  check.tensor("dz", args.dz, args.dy.dtype(), rows);
  check.that(args.dx || !args.dropout.active(), "dx", "is absent although dropout is active");
  if (args.dx) check.tensor("dx", args.dx, args.dy.dtype(), rows);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("dgamma", args.dgamma, Dtype::kF32, {rows[1]});
  check.dense("dbeta", args.dbeta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  do_dropout_add_layer_norm_backward(args);
}

void Ops::embeddings_forward(const EmbeddingsForward& args) {
  const ArgumentCheck check("embeddings_forward");
  check_rows(check, "word", args.word);
  const std::int64_t hidden = args.word.extent(1);
  for (const auto& [name, table] : {std::pair{"position", args.position}, std::pair{"segment", args.segment}}) {
    check.present(name, table);
    check.rank(name, table, 2);
    check.tensor(name, table, args.word.dtype(), {table.extent(0), hidden});
  }
  check.present("token_ids", args.token_ids);
  check.rank("token_ids", args.token_ids, 1);
  const Shape rows = {args.token_ids.extent(0), hidden};
  check.dense("token_ids", args.token_ids, Dtype::kI32, {rows[0]});
  check.dense("position_ids", args.position_ids, Dtype::kI32, {rows[0]});
  check.dense("segment_ids", args.segment_ids, Dtype::kI32, {rows[0]});
  check.tensor("y", args.y, args.word.dtype(), rows);
  if (args.z) check.tensor("z", args.z, args.word.dtype(), rows);
  check.that(!same_memory(args.y, args.z), "y", "must not alias z");
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("beta", args.beta, Dtype::kF32, {hidden});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  check_origin(check, rows, args.dropout, args.origin);
  do_embeddings_forward(args);
}

void Ops::embeddings_backward(const EmbeddingsBackward& args) {
  const ArgumentCheck check("embeddings_backward");
  check_rows(check, "dy", args.dy);
  const Shape rows = args.dy.shape();
  check.tensor("z", args.z, args.dy.dtype(), rows);
  check.tensor("dz", args.dz, args.dy.dtype(), rows);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("dgamma", args.dgamma, Dtype::kF32, {rows[1]});
  check.dense("dbeta", args.dbeta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  do_embeddings_backward(args);
}

void Ops::embedding_gradient(const EmbeddingGradient& args) {
  const ArgumentCheck check("embedding_gradient");
  check.present("dz", args.dz);
  check.rank("dz", args.dz, 2);
  check.compute_dtype("dz", args.dz);
  check.present("dtable", args.dtable);
  check.rank("dtable", args.dtable, 2);
  check.tensor("dtable", args.dtable, Dtype::kF32, {args.dtable.extent(0), args.dz.extent(1)});
  for (const auto& [name, list] : {std::pair{"order", args.order}, std::pair{"starts", args.starts}, std::pair{"ids", args.ids}}) {
    check.present(name, list);
    check.dtype(name, list, Dtype::kI32);
    check.contiguous(name, list);
  }
  check.dense("runs", args.runs, Dtype::kI32, {1});
  do_embedding_gradient(args);
}

namespace {

/// Contiguous f32|bf16 tensors of one type and shape.
void check_alike(const ArgumentCheck& check, const char* name, const ConstTensor& tensor, const ConstTensor& first) {
  check.present(name, tensor);
  check.compute_dtype(name, tensor);
  check.dense(name, tensor, first.dtype(), first.shape());
}

}  // namespace

void Ops::gelu_forward(const GeluForward& args) {
  const ArgumentCheck check("gelu_forward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "y", args.y, args.x);
  do_gelu_forward(args);
}

void Ops::gelu_backward(const GeluBackward& args) {
  const ArgumentCheck check("gelu_backward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "dy", args.dy, args.x);
  check_alike(check, "dx", args.dx, args.x);
  do_gelu_backward(args);
}

void Ops::tanh_forward(const TanhForward& args) {
  const ArgumentCheck check("tanh_forward");
  check_alike(check, "x", args.x, args.x);
  check_alike(check, "y", args.y, args.x);
  do_tanh_forward(args);
}

void Ops::tanh_backward(const TanhBackward& args) {
  const ArgumentCheck check("tanh_backward");
  check_alike(check, "y", args.y, args.y);
  check_alike(check, "dy", args.dy, args.y);
  check_alike(check, "dx", args.dx, args.y);
  do_tanh_backward(args);
}

void Ops::gather_rows(const GatherRows& args) {
  const ArgumentCheck check("gather_rows");
  check.present("in", args.in);
  check.rank("in", args.in, 2);
  check.present("out", args.out);
  check.rank("out", args.out, 2);
  check.tensor("out", args.out, args.in.dtype(), {args.out.extent(0), args.in.extent(1)});
  check.dense("index", args.index, Dtype::kI32, {args.out.extent(0)});
  do_gather_rows(args);
}

void Ops::scatter_add_rows(const ScatterAddRows& args) {
  const ArgumentCheck check("scatter_add_rows");
  check.present("in", args.in);
  check.rank("in", args.in, 2);
  check.compute_dtype("in", args.in);
  check.present("out", args.out);
  check.rank("out", args.out, 2);
  check.tensor("out", args.out, args.in.dtype(), {args.out.extent(0), args.in.extent(1)});
  check.dense("index", args.index, Dtype::kI32, {args.in.extent(0)});
  do_scatter_add_rows(args);
}

void Ops::cast(const Cast& args) {
  const ArgumentCheck check("cast");
  check_alike(check, "from", args.from, args.from);
  check.present("to", args.to);
  check.compute_dtype("to", args.to);
  check.dense("to", args.to, args.to.dtype(), args.from.shape());
  do_cast(args);
}

void Ops::scaled_copy(const ScaledCopy& args) {
  const ArgumentCheck check("scaled_copy");
  check.present("x", args.x);
  check.dense("x", args.x, Dtype::kF32, args.x.shape());
  check.dense("y", args.y, Dtype::kF32, args.x.shape());
  if (args.scale) check.dense("scale", args.scale, Dtype::kF32, {1});
  do_scaled_copy(args);
}

void Ops::softmax_cross_entropy(const SoftmaxCrossEntropy& args) {
  const ArgumentCheck check("softmax_cross_entropy");
  check.present("logits", args.logits);
  check.rank("logits", args.logits, 2);
  check.compute_dtype("logits", args.logits);
  check.that(args.classes >= 1 && args.classes <= args.logits.extent(1), "classes", "is not between 1 and the number of columns");
  check.dense("labels", args.labels, Dtype::kI32, {args.logits.extent(0)});
  if (args.gradient == SoftmaxCrossEntropy::Gradient::kInPlace) check.dense("scale", args.scale, Dtype::kF32, {1});
  check.dense("counters.nll_sum", args.counters.nll_sum, Dtype::kF64, {1});
  check.dense("counters.correct", args.counters.correct, Dtype::kI64, {1});
  check.dense("counters.counted", args.counters.counted, Dtype::kI64, {1});
  do_softmax_cross_entropy(args);
}

void Ops::global_norm(const GlobalNorm& args) {
  const ArgumentCheck check("global_norm");
  check.dense("result.norm", args.result.norm, Dtype::kF32, {1});
  check.dense("result.clip_scale", args.result.clip_scale, Dtype::kF32, {1});
  check.dense("result.first_bad", args.result.first_bad, Dtype::kI32, {1});
  for (const ConstTensor& tensor : args.tensors) {
    check.present("tensors", tensor);
    check.dense("tensors", tensor, Dtype::kF32, tensor.shape());
  }
  do_global_norm(args);
}

void Ops::lamb_update(const LambUpdate& args) {
  const ArgumentCheck check("lamb_update");
  const auto count = static_cast<std::int64_t>(args.parameters.size());
  check.dense("step_scalars", args.step_scalars, Dtype::kF32, {kStepScalars});
  check.dense("clip_scale", args.clip_scale, Dtype::kF32, {1});
  check.dense("first_bad", args.first_bad, Dtype::kI32, {1});
  check.dense("weight_norm", args.weight_norm, Dtype::kF32, {count});
  check.dense("update_norm", args.update_norm, Dtype::kF32, {count});
  check.dense("trust_ratio", args.trust_ratio, Dtype::kF32, {count});
  for (const LambParameter& parameter : args.parameters) {
    check.present("weight", parameter.weight);
    const Shape shape = parameter.weight.shape();
    check.dense("weight", parameter.weight, Dtype::kF32, shape);
    check.dense("m", parameter.m, Dtype::kF32, shape);
    check.dense("v", parameter.v, Dtype::kF32, shape);
    check.dense("gradient", parameter.gradient, Dtype::kF32, shape);
    if (parameter.compute) check.dense("compute", parameter.compute, Dtype::kBf16, shape);
  }
  do_lamb_update(args);
}

}  // namespace flashbert
