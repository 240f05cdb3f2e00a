#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/packed_batch.h"
#include "data/sample_order.h"
#include "data/shard_reader.h"

namespace flashbert {

/// The shards of one set, headers checked (all of them, before the clock): sizes, layouts, agreeing widths.
struct DataSet {
  std::vector<ShardInfo> shards;  ///< empty shards left out, named in the log
  std::int64_t samples = 0;
  std::int64_t seq_len = 0;  ///< widest fixed row; 0 where only varlength files are present
  std::int64_t max_predictions = 0;
};
/// Throws InputError: list_shards' and inspect_shard's, different widths in one set, no samples at all; and when a width told by
/// the files is above max_positions (naming both numbers and the file).
DataSet open_data_set(const std::filesystem::path& path, std::int64_t max_positions);

struct LoaderOptions {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t micro_batch = 0;
  int rank = 0;
  int ranks = 1;
  std::int64_t first_step = 0;
  std::int64_t window_samples = 262144;
  BatchCapacity capacity;
  SampleLimits limits;
};

/// All micro-batches of one rank for one step: slots [rank * n, (rank + 1) * n) of the global batch, n = global / ranks, in slot
/// order, micro_batch samples each. Counts are of the global batch, so every rank normalises the same way without asking.
struct StepBatch {
  std::int64_t step = 0;
  std::vector<PackedBatch> micro_batches;
  std::int64_t global_masked = 0;
  std::int64_t global_tokens = 0;
  std::vector<SampleId> slots;  ///< (n) which sample stands in each of this rank's slots, for the trace
};

/// Composes steps ahead of training on its own thread; holds at most two windows of samples and `depth` composed steps. An error
/// in the thread is rethrown by next(). The first byte of a sample is read by the first call of start().
class Loader {
 public:
  /// Throws ConfigError for a rank, batch or depth that makes no sense. Samples with more tokens or masked positions than the capacity
  /// has room for per sequence are refused by next() (a capacity of 0 sequences is not checked).
  Loader(DataSet data, const LoaderOptions& options, int depth = 2);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  void start();
  /// The next step's batches; blocks until composed. Call start() before. The reference stays valid until the following call. wait_s()
  /// tells the time the last call blocked.
  const StepBatch& next();
  [[nodiscard]] double wait_s() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// The first `samples` samples (0 = all) of an evaluation set in file order, of which this rank gets the contiguous share
/// [rank * N / ranks, (rank + 1) * N / ranks), packed into batches of at most micro_batch samples. Sample indices count from 0.
std::vector<PackedBatch> load_evaluation(const DataSet& data, std::int64_t samples, std::int64_t micro_batch, int rank, int ranks,
                                         const SampleLimits& limits);

}  // namespace flashbert
