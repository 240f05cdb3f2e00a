#pragma once

#include <cstdint>

#include "train/train_settings.h"

namespace flashbert {

/// Learning rate of the update with number `step` (from 0):
///   warm-up, while W > 0 and step - S < W: base * (step - S) / W; afterwards base * (1 - min(step, N) / N)^p, counted from step 0,
/// with W = warmup_steps, S = start_warmup_step (may be negative), N = lr_total_steps, p = lr_power; so there is a jump at the seam.
/// Source: the MLPerf reference's optimization.py (docs/benchmark-rules.md).
double learning_rate(const OptimizerSettings& settings, std::int64_t step);

}  // namespace flashbert
