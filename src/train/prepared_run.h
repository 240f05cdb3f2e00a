#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "data/loader.h"
#include "train/run_plan.h"
#include "train/setup.h"
#include "train/train_settings.h"

namespace flashbert {

/// A run whose input is known to fit, before memory is taken and before any file is written.
struct PreparedRun {
  DataSet train;
  std::optional<DataSet> eval;
  std::int64_t eval_samples = 0;  ///< 0 without eval
  RunPlan plan;
};

/// config_text is what was asked. Opens the data sets, checks the checkpoint and the results folder, and plans; reads headers only, no
/// sample and no weight. Collective. Throws ConfigError (keys, results in the way, ranks with different settings), InputError (shards,
/// checkpoint) and EnvironmentError (ranks with different processors or builds).
PreparedRun prepare_run(const TrainSettings& settings, const std::string& config_text, const Setup& setup, Communicator& communicator);

/// What `train --dry-run` shows after the settings: parameters, memory plan, limits and evaluation points.
void print_plan(const TrainSettings& settings, const PreparedRun& run, Ops& ops);

/// What samples must satisfy to be read for this model.
SampleLimits sample_limits(const TrainSettings& settings);

}  // namespace flashbert
