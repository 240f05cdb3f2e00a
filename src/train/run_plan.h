#pragma once

#include <cstdint>
#include <string>

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

/// Checks between keys that no single key can see. Throws ConfigError.
void validate(const TrainSettings& settings, int ranks);

/// Longest sequence to plan for: what the files tell, else max-positions. Most predictions: the key max-predictions, else what the files
/// tell, else 16 % of the longest sequence (the benchmark masks 15 %). Throws InputError where a file has more predictions than the key.
RowCapacity row_capacity(const TrainSettings& settings, const DataSet* train, const DataSet* eval, std::int64_t micro_batch);

/// Everything a run needs to know before memory is taken.
struct RunPlan {
  BatchSplit split;
  EngineOptions engine;
  std::int64_t eval_interval = 0;  ///< samples; 0 = no evaluation
  std::string micro_batch_note;    ///< how the micro-batch was chosen, empty where it was given
};
/// Where the run takes place.
struct Machine {
  int ranks = 1, local_ranks = 1;  ///< of the run, and those of them on this machine
  Dtype compute = Dtype::kF32;
  std::int64_t free_bytes = 0;  ///< memory of this machine
};
/// Chooses the micro-batch where it is 0: the largest divisor with at most 8,192 tokens whose plan fits 60 % of the free memory, shared
/// among this machine's ranks.
RunPlan make_run_plan(const TrainSettings& settings, const Machine& machine, const DataSet& train, const DataSet* eval, Ops& ops);

}  // namespace flashbert
