#pragma once

#include <cstdint>
#include <vector>

#include "core/arena.h"
#include "kernels/ops.h"
#include "model/parameter_table.h"

namespace flashbert {

/// One linear layer as the ops want it.
struct LinearLayer {
  LinearWeights weights;
  ConstTensor bias;
  Tensor dweight, dbias;  ///< absent where nothing is trained
};

/// The linear layers of one encoder layer. The last layer projects queries for fewer rows than keys and values: it has query and
/// key_value in place of qkv.
struct LayerLinears {
  LinearLayer qkv, query, key_value, attention_output, up, down;
};

/// Storage of all parameters: f32 master weights and, in training, gradients and both LAMB moments, each group contiguous and in
/// block order (parameter_table.h), plus compute-dtype copies of matrices and the backend's packed forms of linear layers.
class Parameters {
 public:
  enum class Use { kInference, kTraining };
  /// Books everything in the plan; bind() must follow once the arena exists.
  Parameters(const BertConfig& config, Dtype compute, Use use, const Ops& ops, const std::vector<LinearShape>& linears, ArenaPlan& plan);
  void bind(const Arena& arena);

  [[nodiscard]] const ParameterTable& table() const { return table_; }
  // Whole blocks.
  [[nodiscard]] Tensor master(std::size_t block) const { return masters_[block]; }
  [[nodiscard]] Tensor gradient(std::size_t block) const { return gradients_[block]; }
  /// The compute-dtype copy; the master itself in f32.
  [[nodiscard]] Tensor compute(std::size_t block) const { return computes_[block]; }
  // Parameters by index into table().parameters(), at their true size.
  [[nodiscard]] Tensor parameter_master(std::size_t index) const { return slice(masters_, index); }
  [[nodiscard]] Tensor parameter_gradient(std::size_t index) const { return slice(gradients_, index); }
  /// For LAMB, in table order. The compute copies are refreshed by the update.
  [[nodiscard]] const std::vector<LambParameter>& lamb_parameters() const { return lamb_; }
  [[nodiscard]] const std::vector<ConstTensor>& gradient_views() const { return gradient_views_; }
  /// All gradients as one stretch of f32 (alignment gaps hold zeros), for the reduction over ranks.
  [[nodiscard]] Tensor all_gradients() const { return all_gradients_; }

  [[nodiscard]] const LayerLinears& layer(std::size_t index) const { return layers_[index]; }
  LinearLayer pooler, nsp, transform, decoder;

  /// Seeded start values: truncated normal (0, 0.02, cut at two sigma) for matrices, 1 for gammas, 0 for the rest. A pure function of
  /// (seed, parameter, element). Ends with refresh().
  void initialise(Ops& ops, std::uint64_t seed);
  /// Brings compute copies and packs up to date with the masters.
  void refresh(Ops& ops);
  /// Packs only: after an optimizer update, which has refreshed the copies itself.
  void refresh_packs(Ops& ops);

 private:
  [[nodiscard]] Tensor slice(const std::vector<Tensor>& blocks, std::size_t index) const;
  LinearLayer make_linear(std::size_t weight, std::size_t bias, std::int64_t row, std::int64_t rows, std::size_t pack) const;
  void bind_linears();

  BertConfig config_;
  ParameterTable table_;
  Dtype compute_;
  Use use_;
  std::vector<BufferId> master_ids_, gradient_ids_, moment_ids_, variance_ids_, compute_ids_, pack_ids_;
  std::vector<Tensor> masters_, gradients_, moments_, variances_, computes_, packs_;
  std::vector<LambParameter> lamb_;
  std::vector<ConstTensor> gradient_views_;
  Tensor all_gradients_;
  std::vector<LayerLinears> layers_;
  std::vector<LinearWeights> packed_;
};

/// The linear layers in the order Parameters packs them: for each layer qkv, output, up, down (last layer: query, key_value, output, up,
/// down), then pooler, next-sentence, transform, decoder.
struct RowCapacity;
std::vector<LinearShape> linear_shapes(const BertConfig& config, Dtype compute, const RowCapacity& rows, Parameters::Use use);

}  // namespace flashbert
