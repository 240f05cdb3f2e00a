#pragma once

#include "model/activation_plan.h"
#include "model/pass.h"

namespace flashbert {

/// y = LayerNorm(z), z = residual + dropout(x), with what backward needs: z (which takes x's place in memory), the row statistics and the
/// mask. Residual and dropout may be absent: the masked-LM head has neither.
class LayerNorm {
 public:
  /// dropout_rate: the highest that a pass asks for; 0 books no mask.
  LayerNorm(const ActivationPlan& plan, std::int64_t max_rows, float dropout_rate);
  /// Where x must be written: (rows, H).
  [[nodiscard]] Tensor input(const Pass& pass, std::int64_t rows) const { return pass.memory(z_, rows); }
  [[nodiscard]] Tensor output(const Pass& pass, std::int64_t rows) const { return pass.memory(y_, rows); }

  struct Forward {
    std::int64_t rows = 0;
    NormParameters parameters;
    ConstTensor residual = {};  ///< (rows, H)
    RowOrigin origin = {};      ///< read where dropout is active
    Dropout dropout = {};
  };
  void forward(const Pass& pass, const Forward& args) const;

  struct Backward {
    Tensor gradient;  ///< (rows, H): in dy, out dz, which is the residual's gradient
    Tensor dx = {};   ///< (rows, H): out; may be absent without dropout, where it equals dz
    NormParameters parameters;
    Dropout dropout = {};
  };
  void backward(const Pass& pass, const Backward& args) const;

 private:
  BufferId z_;          ///< (rows, H)
  BufferId y_;          ///< (rows, H)
  BufferId mean_;       ///< (rows) f32
  BufferId rstd_;       ///< (rows) f32
  BufferId keep_bits_;  ///< (rows, keep_words(H)) u32
};

}  // namespace flashbert
