#pragma once

#include <memory>
#include <vector>

#include "model/embeddings.h"
#include "model/feed_forward.h"
#include "model/heads.h"
#include "model/self_attention.h"

namespace flashbert {

/// BERT for pre-training: embeddings, encoder, both heads and losses; forward and backward over packed (unpadded) tokens.
/// Owns views of activations and parameters; the memory is the arena's. The order of use: construct (books), arena, bind, then
/// Parameters::initialise or a checkpoint, then passes.
class BertModel {
 public:
  BertModel(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use, Ops& ops, ArenaPlan& plan);
  void bind(const Arena& arena);

  [[nodiscard]] const BertConfig& config() const { return config_; }
  [[nodiscard]] Parameters& parameters() { return parameters_; }
  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  [[nodiscard]] const LossSums& sums() const { return sums_; }
  void zero_sums(Ops& ops);

  /// Adds the batch's nll, correct and counted to sums().
  void forward(const Pass& pass);
  /// After a training forward of the same pass: parameter gradients, overwritten or added as the pass says.
  void backward(const Pass& pass);

 private:
  [[nodiscard]] RowOrigin layer_origin(const Pass& pass, std::size_t layer) const;
  BertConfig config_;
  Parameters::Use use_;
  Parameters parameters_;
  Embeddings embeddings_;
  std::vector<SelfAttention> attention_;
  std::vector<FeedForward> feed_forward_;
  Heads heads_;
  std::vector<ConstTensor> inputs_;    ///< of each layer's attention, kept by forward for backward
  std::vector<ConstTensor> attended_;  ///< of each layer's feed-forward
  BufferId gradient_id_, branch_id_, context_id_, qkv_id_, intermediate_id_, head_gradient_id_;
  BufferId mlm_nll_id_, mlm_correct_id_, mlm_counted_id_, nsp_nll_id_, nsp_correct_id_, nsp_counted_id_;
  BackwardBuffers backward_;
  LossSums sums_;
};

/// What Ops::prepare needs to know about a model.
OpsPlan ops_plan(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use);

}  // namespace flashbert
