#pragma once

#include "comm/ranks.h"
#include "train/decided_values.h"
#include "train/train_settings.h"

namespace flashbert {

/// `train --dry-run`: checks settings and inputs as a run does, trains and writes nothing. The root prints config_text with all that a run
/// would decide, then parameters, memory plan, limits and evaluation points. Collective. Throws as run_training before its first step.
void run_dry(const TrainSettings& settings, const ConfigText& config_text, Ranks& ranks);

}  // namespace flashbert
