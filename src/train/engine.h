#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/loader.h"
#include "model/bert_model.h"
#include "train/batch_slots.h"
#include "train/lamb_optimizer.h"
#include "train/train_settings.h"

namespace flashbert {

/// What one optimizer step did, over all ranks.
struct StepResult {
  double loss = 0.0, mlm_loss = 0.0, nsp_loss = 0.0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;                                          ///< before clipping; of the clipped sum where clip is before-reduce
  std::int64_t tokens = 0, masked = 0;                                 ///< of the global batch
  std::int64_t batches_without_mask = 0;                               ///< all ranks' micro-batches without a masked position
  double forward_backward_s = 0.0, reduce_s = 0.0, optimizer_s = 0.0;  ///< this rank
  /// Empty, or what was not finite ("masked-LM loss", "gradient of bert.pooler.dense.weight"): the weights were not updated.
  std::string bad_value;
};

struct EvaluationResult {
  double accuracy = 0.0;  ///< correct / masked over all samples of all ranks
  std::int64_t correct = 0, masked = 0, samples = 0;
  double mlm_loss = 0.0, nsp_loss = 0.0, nsp_accuracy = 0.0;
};

struct EngineOptions {
  BertConfig model;
  OptimizerSettings optimizer;
  Dtype compute = Dtype::kF32;
  RowCapacity capacity;
  Parameters::Use use = Parameters::Use::kTraining;
  std::int64_t global_batch = 0;
  std::int64_t accumulation = 1;
  ClipOrder clip = ClipOrder::kAfterReduce;
  LossNormalisation loss_normalisation = LossNormalisation::kGlobal;
  std::uint64_t seed = 0;
};

/// The model and the optimizer with everything they book, before any memory is taken: `plan` tells all bytes of a run.
struct EngineParts {
  EngineParts(const EngineOptions& options, Ops& ops);
  ArenaPlan plan;
  std::unique_ptr<BertModel> model;
  std::unique_ptr<LambOptimizer> optimizer;
  std::unique_ptr<BatchSlots> batches;
  std::optional<BufferId> total_gradient;  ///< clip before the reduction with accumulation: micro-batches need a sum of their own
  BufferId workspace;
};

/// The model, the optimizer and all their memory: trains steps and evaluates. Knows neither files nor logs. Collective: all ranks call
/// the same members in the same order.
class Engine {
 public:
  Engine(const EngineOptions& options, Ops& ops, Communicator& communicator);
  [[nodiscard]] const ArenaPlan& plan() const { return parts_.plan; }
  [[nodiscard]] BertModel& model() { return *model_; }
  [[nodiscard]] const LambOptimizer& optimizer() const { return *optimizer_; }

  /// One update from this rank's micro-batches of the step.
  StepResult train_step(const StepBatch& batch);
  /// This rank's share of the evaluation set; dropout off, every sample exactly once.
  EvaluationResult evaluate(const std::vector<PackedBatch>& batches);
  /// Lower-case hexadecimal SHA-256 over all fp32 master weights in parameter-table order.
  std::string weight_digest();
  /// A sum over the bits of all masters and their places: equal weights have equal sums. Much cheaper than the digest; for comparing ranks
  /// (factors are odd and at least 3, so that the upper 63 bits, which are compared, see the last bit of any one weight).
  std::uint64_t weight_checksum();

 private:
  /// f(values of one parameter, on the host) for all parameters in table order.
  template <class F>
  void for_each_master(const F& f);
  struct Losses {
    double loss = 0.0, mlm = 0.0, nsp = 0.0;
  };
  [[nodiscard]] StepScalarValues scalars(const StepBatch& batch, const PackedBatch& micro) const;
  void run_micro_batch(const StepBatch& batch, std::size_t index);
  void clip_before_reduce(std::size_t micro_batch);
  [[nodiscard]] std::array<double, 4> download_sums();
  Losses reduce_losses(const StepBatch& batch, StepResult& result);

  EngineOptions options_;
  Ops& ops_;
  Communicator& communicator_;
  EngineParts parts_;
  BertModel* model_;          ///< parts_.model
  LambOptimizer* optimizer_;  ///< parts_.optimizer
  std::unique_ptr<Arena> arena_;
  Tensor total_gradient_;
  Losses own_losses_;  ///< per-rank normalisation: this rank's sum over micro-batches
};

}  // namespace flashbert
