#pragma once

#include "core/arena.h"
#include "kernels/ops.h"

namespace flashbert {

/// Parameters of one LayerNorm: values and, in training, gradients.
struct NormParameters {
  ConstTensor gamma, beta;
  Tensor dgamma, dbeta;
};

/// What every sublayer of a post-LN encoder ends with: y = LayerNorm(residual + dropout(branch)). Keeps z (which takes the branch's
/// place in memory), the row statistics and the mask for backward.
class ResidualNorm {
 public:
  ResidualNorm(std::int64_t max_rows, std::int64_t hidden, Dtype compute, bool dropout, ArenaPlan& plan);
  void bind(const Arena& arena);
  /// Where the branch must be written: the first `rows` rows of z.
  [[nodiscard]] Tensor branch(std::int64_t rows) const { return z_.rows(0, rows); }
  [[nodiscard]] Tensor output(std::int64_t rows) const { return y_.rows(0, rows); }

  struct Forward {
    ConstTensor residual;
    NormParameters parameters;
    RowOrigin origin;
    Dropout dropout;
    std::int64_t rows = 0;
  };
  /// residual may be absent.
  void forward(Ops& ops, const Forward& args) const;

  /// gradient (rows, H): in dy, out dz (the residual's gradient); branch_gradient (rows, H): out.
  struct Backward {
    Tensor gradient, branch_gradient;
    NormParameters parameters;
    Dropout dropout;
    Accumulate accumulate;
  };
  void backward(Ops& ops, const Backward& args) const;

 private:
  BufferId z_id_, y_id_, mean_id_, rstd_id_, keep_id_;
  Tensor z_, y_, mean_, rstd_, keep_;
};

}  // namespace flashbert
