#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/loader.h"
#include "train/engine.h"
#include "train/train_settings.h"

namespace flashbert {

/// Samples at once, on one rank, and how often, for one update.
struct BatchSplit {
  std::int64_t micro_batch = 0, accumulation = 0;
};

/// Checks global batch, micro-batch and accumulation against each other and the number of ranks; 0 = derive. Throws ConfigError with the
/// whole sum, the world size and where it came from, and the two nearest global batches that fit. With neither given, micro_batch stays 0.
BatchSplit split_batch(const TrainSettings& settings, int ranks);

/// The data sets that batches come from; owned elsewhere.
using DataSets = std::vector<const DataSet*>;

/// Longest sequence to plan for: what the files tell, else max-positions. Most predictions: the key max-predictions, else what the files
/// tell, else 16 % of the longest sequence (the benchmark masks 15 %). Throws InputError where a file has more predictions than the key.
RowCapacity row_capacity(const TrainSettings& settings, const DataSets& sets, std::int64_t micro_batch);

/// How the global batch is computed, before memory is taken.
struct BatchPlan {
  BatchSplit split;
  EngineOptions engine;
  std::string note;  ///< how the micro-batch was chosen, empty where it was given
};
/// Where the run takes place.
struct Machine {
  int ranks = 1, local_ranks = 1;  ///< of the run, and those of them on this machine
  Dtype compute = Dtype::kF32;
  std::int64_t free_bytes = 0;  ///< memory of this machine
};
/// Chooses the micro-batch where it is 0: the largest divisor with at most 8,192 tokens whose plan fits 60 % of the free memory, shared
/// among this machine's ranks. Throws as split_batch and row_capacity.
BatchPlan plan_batch(const TrainSettings& settings, const Machine& machine, const DataSets& sets, Ops& ops);

}  // namespace flashbert
