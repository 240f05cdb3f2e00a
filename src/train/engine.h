#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/peers.h"
#include "data/loader.h"
#include "model/bert_model.h"
#include "train/batch_slots.h"
#include "train/lamb_optimizer.h"
#include "train/step_record.h"
#include "train/train_settings.h"

namespace flashbert {

/// What one optimizer step did, over all ranks.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0.0, mlm_loss = 0.0, nsp_loss = 0.0;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;             ///< before clipping; of the clipped sum where clip is before-reduce; 0 after a bad loss
  std::int64_t tokens = 0, masked = 0;    ///< of the global batch
  std::int64_t batches_without_mask = 0;  ///< all ranks' micro-batches without a masked position
  double forward_backward_s = 0.0, reduce_s = 0.0, optimizer_s = 0.0;  ///< this rank's host, which on a CPU does the work itself
  /// Empty, or what was not finite ("masked-LM loss", "gradient of bert.pooler.dense.weight"): the weights were not updated.
  std::string bad_value;
  // Both 0, or the step was abandoned on all ranks and counts as not made: the weights are those of the step before.
  int signal = 0;                 ///< that a rank has got
  std::int64_t failed_ranks = 0;  ///< that had no batch
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
  std::unique_ptr<StepRecord> record;
  std::unique_ptr<BatchSlots> batches;
  std::optional<BufferId> total_gradient;  ///< clip before the reduction with accumulation: micro-batches need a sum of their own
  BufferId workspace, checksum;
};

/// The model, the optimizer and all their memory: trains steps and evaluates. Knows neither files nor logs. Collective: all ranks call
/// the same members in the same order.
class Engine {
 public:
  Engine(const EngineOptions& options, Ops& ops, Peers peers);
  [[nodiscard]] const ArenaPlan& plan() const { return parts_.plan; }
  [[nodiscard]] BertModel& model() { return *model_; }
  [[nodiscard]] const LambOptimizer& optimizer() const { return *optimizer_; }

  /// Enqueues one update from this rank's micro-batches of the step and returns; at most two steps may be in flight. `signal` is asked
  /// before each micro-batch: a number that is not 0 abandons the step on all ranks. Steps after a bad value or an abandoned step update
  /// nothing.
  void enqueue(const StepBatch& batch, const std::function<int()>& signal = {});
  /// In place of enqueue() on a rank that has no batch: the others learn of it by failed_ranks.
  void enqueue_failure(std::int64_t step);
  /// The oldest step in flight once it has run; waits for it only where two are in flight, so that the host is at most one step ahead.
  /// Nothing where none is ready.
  std::optional<StepResult> take_finished();
  /// The same, but waits for it; nothing only where none is in flight. Before an evaluation, a save, and at the end.
  std::optional<StepResult> drain_one();
  /// enqueue() and drain_one(), for those who have time: benches, tools.
  StepResult train_step(const StepBatch& batch);
  /// This rank's share of the evaluation set; dropout off, every sample exactly once.
  EvaluationResult evaluate(const std::vector<PackedBatch>& batches);
  /// Lower-case hexadecimal SHA-256 over all fp32 master weights in parameter-table order.
  std::string weight_digest();
  /// Ops::checksum over all masters in parameter-table order: equal weights have equal sums, and the upper 63 bits, which are compared, see
  /// the last bit of any one weight. Made on the device; much cheaper than the digest; for comparing ranks.
  std::uint64_t weight_checksum();

 private:
  /// f(values of one parameter, on the host) for all parameters in table order.
  template <class F>
  void for_each_master(const F& f);
  /// A step whose record is on its way to the host.
  struct Flight {
    Tensor record;  ///< pinned, StepRecordValues
    std::unique_ptr<Event> arrived;
    StepResult result;  ///< what the host knows of it already
  };
  static constexpr std::size_t kMostFlights = 2;

  [[nodiscard]] double replicas() const;
  [[nodiscard]] MicroBatch micro_batch(const StepBatch& batch, const PackedBatch& packed, const StepFlags& flags) const;
  void run_micro_batch(const StepBatch& batch, std::size_t index, const StepFlags& flags);
  void add_losses();
  void clip_before_reduce(std::size_t micro_batch);
  void tell_flags(const StepFlags& flags);
  void reduce();
  void finish_step(const StepResult& known);
  [[nodiscard]] void* pinned_values(std::size_t index) const;
  [[nodiscard]] StepResult result_of(const Flight& flight, std::size_t index) const;
  [[nodiscard]] std::array<double, 4> read_sums();

  EngineOptions options_;
  Ops& ops_;
  Ranks& ranks_;
  Collectives& collectives_;
  EngineParts parts_;
  BertModel* model_;          ///< parts_.model
  LambOptimizer* optimizer_;  ///< parts_.optimizer
  std::unique_ptr<Arena> arena_;
  Tensor total_gradient_;
  DeviceBatch device_batch_;  ///< the step's last micro-batch
  Buffer pinned_;             ///< a record for each flight, then this rank's flags of a step that is abandoned
  std::array<Flight, kMostFlights> flights_;
  std::size_t oldest_ = 0, in_flight_ = 0;
};

}  // namespace flashbert
