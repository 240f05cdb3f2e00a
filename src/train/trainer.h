#pragma once

#include <string>

#include "comm/peers.h"
#include "core/error.h"
#include "train/decided_values.h"
#include "train/run_log.h"
#include "train/train_settings.h"

namespace flashbert {

/// `flashbert train`: everything from the results folder to the verdict. config_text, with all that the run decided, is stored as
/// OUT/config.toml and logged when nothing is left to be refused; asked with nothing decided, it must be the same on all ranks. `show`
/// takes the root's summary of the run. Collective over all ranks; the root writes files and logs. Returns what the process should exit
/// with; throws Errors for wrong input and environment (the log then ends with run_stop aborted, if its clock ran).
ExitCode run_training(const TrainSettings& settings, const ConfigText& config_text, Peers peers, const ShowText& show);

}  // namespace flashbert
