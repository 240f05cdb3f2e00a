#pragma once

#include "train/train_settings.h"

namespace flashbert {

/// Checks between keys that no single key can see, for a run over so many ranks. Throws ConfigError.
void validate(const TrainSettings& settings, int ranks);

}  // namespace flashbert
