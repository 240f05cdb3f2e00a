#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/ranks.h"
#include "data/loader.h"
#include "train/backend.h"
#include "train/batch_split.h"
#include "train/train_settings.h"

namespace flashbert {

/// A run whose input is known to fit, before memory is taken and before any file is written.
struct RunInputs {
  DataSet train;
  std::optional<DataSet> eval;
  std::int64_t eval_samples = 0;   ///< 0 without eval
  std::int64_t eval_interval = 0;  ///< samples from one evaluation point to the next; 0 without eval
  BatchPlan batch;
};

/// config_text is what was asked. Opens the data sets, checks the checkpoint and the results folder (not of a dry run), and plans; reads
/// headers only, no sample and no weight. Collective. Throws ConfigError (keys, results in the way, ranks with different settings),
/// InputError (shards, checkpoint) and EnvironmentError (ranks with different processors or builds).
RunInputs open_run_inputs(const TrainSettings& settings, const std::string& config_text, const Backend& backend, Ranks& ranks);

/// What samples must satisfy to be read for this model.
SampleLimits sample_limits(const TrainSettings& settings);

}  // namespace flashbert
