#pragma once

#include <string>

#include "comm/communicator.h"
#include "core/error.h"
#include "train/engine.h"
#include "train/train_settings.h"

namespace flashbert {

/// `flashbert train`: everything from the results folder to the verdict. config_text is stored as OUT/config.toml. With dry_run only the
/// plan is printed. Collective over all ranks; the root writes files and logs. Returns what the process should exit with; throws Errors for
/// wrong input and environment (the log then ends with run_stop aborted, if its clock ran).
ExitCode run_training(const TrainSettings& settings, const std::string& config_text, Communicator& communicator);

}  // namespace flashbert
