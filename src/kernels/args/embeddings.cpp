#include "kernels/args/embeddings.h"

#include "kernels/ops.h"
#include "kernels/validate_rows.h"

// What Ops checks before a backend is called.
namespace flashbert {

void Ops::embeddings_forward(const EmbeddingsForward& args) {
  const ArgumentCheck check("embeddings_forward");
  check_rows(check, "word", args.word);
  const std::int64_t hidden = args.word.extent(1);
  for (const auto& [name, table] : {std::pair{"position", args.position}, std::pair{"segment", args.segment}}) {
    check.matrix(name, table, args.word.dtype(), hidden);
  }
  check.list("token_ids", args.token_ids, Dtype::kI32);
  const Shape rows = {args.token_ids.extent(0), hidden};
  check.dense("position_ids", args.position_ids, Dtype::kI32, {rows[0]});
  check.dense("segment_ids", args.segment_ids, Dtype::kI32, {rows[0]});
  check.tensor("y", args.y, args.word.dtype(), rows);
  if (args.z) check.tensor("z", args.z, args.word.dtype(), rows);
  check.apart("y", args.y, "z", args.z);
  for (const auto& [name, table] :
       {std::pair{"word", args.word}, std::pair{"position", args.position}, std::pair{"segment", args.segment}}) {
    check.apart("y", args.y, name, table);
    check.apart("z", args.z, name, table);
  }
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
  check.apart("dz", args.dz, "z", args.z);
  check_norm(check, rows, {args.mean, args.rstd, args.gamma});
  check.dense("dgamma", args.dgamma, Dtype::kF32, {rows[1]});
  check.dense("dbeta", args.dbeta, Dtype::kF32, {rows[1]});
  check_row_keep_bits(check, rows, args.dropout, args.keep_bits);
  do_embeddings_backward(args);
}

void Ops::embedding_gradient(const EmbeddingGradient& args) {
  const ArgumentCheck check("embedding_gradient");
  check.matrix("dz", args.dz);
  check.matrix("dtable", args.dtable, Dtype::kF32, args.dz.extent(1));
  check.apart("dtable", args.dtable, "dz", args.dz);
  check.dense("order", args.order, Dtype::kI32, {args.dz.extent(0)});
  check.list("ids", args.ids, Dtype::kI32);
  check.dense("starts", args.starts, Dtype::kI32, {args.ids.extent(0) + 1});
  check.dense("runs", args.runs, Dtype::kI32, {1});
  do_embedding_gradient(args);
}

}  // namespace flashbert
