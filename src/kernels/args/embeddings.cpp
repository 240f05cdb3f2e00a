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

}  // namespace flashbert
