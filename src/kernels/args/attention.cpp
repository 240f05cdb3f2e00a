#include "kernels/args/attention.h"

#include "kernels/ops.h"
#include "kernels/validate.h"

// What Ops checks before a backend is called.
namespace flashbert {

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
  check.list("cu_queries", in.cu_queries, Dtype::kI32);
  check.that(in.cu_queries.extent(0) >= 1, "cu_queries", "has no entry; it needs the number of sequences + 1");
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

/// The result starts where none of the inputs starts: items that run later still read these.
void check_apart_from_inputs(const ArgumentCheck& check, const char* name, const ConstTensor& result, const AttentionInputs& in) {
  check.apart(name, result, "query", in.query);
  check.apart(name, result, "key", in.key);
  check.apart(name, result, "value", in.value);
}

}  // namespace

void Ops::attention_forward(const AttentionForward& args) {
  const ArgumentCheck check("attention_forward");
  check_attention(check, args.inputs);
  check.tensor("out", args.out, args.inputs.query.dtype(), args.inputs.query.shape());
  check_apart_from_inputs(check, "out", args.out, args.inputs);
  check.tensor("lse", args.lse, Dtype::kF32, {args.inputs.query.extent(1), args.inputs.query.extent(0)});
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
  for (const auto& [name, gradient] : {std::pair{"dquery", args.dquery}, std::pair{"dkey", args.dkey}, std::pair{"dvalue", args.dvalue}}) {
    check_apart_from_inputs(check, name, gradient, in);
    check.apart(name, gradient, "dout", args.dout);
    check.apart(name, gradient, "out", args.out);
  }
  check.tensor("lse", args.lse, Dtype::kF32, {in.query.extent(1), in.query.extent(0)});
  check_keep_bits(check, in, args.keep_bits);
  do_attention_backward(args);
}

}  // namespace flashbert
