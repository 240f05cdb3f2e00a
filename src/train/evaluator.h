#pragma once

#include "comm/peers.h"
#include "train/decided_values.h"
#include "train/engine.h"
#include "train/train_settings.h"

namespace flashbert {

/// `flashbert eval`: accuracy and losses of a checkpoint over eval-data. The root logs config_text, with what was decided, when
/// everything has been read. Collective; the result is the same on all ranks. Throws ConfigError and InputError (data, checkpoint).
EvaluationResult run_evaluation(const TrainSettings& settings, const ConfigText& config_text, Peers peers);

}  // namespace flashbert
