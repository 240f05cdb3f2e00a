#pragma once

#include <memory>
#include <vector>

#include "model/embeddings.h"
#include "model/encoder_layer.h"
#include "model/heads.h"

namespace flashbert {

/// BERT for pre-training: embeddings, encoder, both heads and losses; forward and backward over packed (unpadded) tokens.
/// Owns no memory: buffers are booked here and lie in the arena. The order of use: construct (books), arena, bind, then
/// Parameters::initialise or a checkpoint, then passes.
class BertModel {
 public:
  BertModel(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use, Ops& ops, ArenaPlan& plan);
  /// arena: made from the plan; must outlive the model's passes.
  void bind(const Arena& arena);

  [[nodiscard]] const BertConfig& config() const { return config_; }
  [[nodiscard]] Parameters& parameters() { return parameters_; }
  [[nodiscard]] const Parameters& parameters() const { return parameters_; }
  /// The memory of all buffers, as a Pass wants it.
  [[nodiscard]] const Arena& arena() const { return *arena_; }
  [[nodiscard]] LossSums sums() const;
  void zero_sums(Ops& ops);

  /// Adds the batch's nll, correct and counted to sums().
  void forward(const Pass& pass);
  /// After a training forward of the same pass: parameter gradients, overwritten or added as the pass says.
  void backward(const Pass& pass);

 private:
  struct LossCounterIds {
    BufferId nll_sum;           ///< (1) f64
    BufferId correct, counted;  ///< (1) i64
  };

  BertConfig config_;
  Parameters parameters_;
  Embeddings embeddings_;
  Heads heads_;
  std::vector<EncoderLayer> layers_;
  BackwardBuffers backward_;  ///< booked for training alone
  LossCounterIds mlm_, nsp_;
  const Arena* arena_ = nullptr;
};

/// What Ops::prepare needs to know about a model and its use.
OpsPlan ops_plan(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use);

}  // namespace flashbert
