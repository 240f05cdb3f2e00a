#pragma once

#include "comm/communicator.h"
#include "train/engine.h"
#include "train/train_settings.h"

namespace flashbert {

/// `flashbert eval`: accuracy and losses of a checkpoint over eval-data. Collective; the result is the same on all ranks.
EvaluationResult run_evaluation(const TrainSettings& settings, Communicator& communicator);

}  // namespace flashbert
