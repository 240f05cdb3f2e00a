#include "train/schedule.h"

#include <algorithm>
#include <cmath>

namespace flashbert {

double learning_rate(const OptimizerSettings& settings, std::int64_t step) {
  const std::int64_t since_start = step - settings.start_warmup_step;
  if (settings.warmup_steps > 0 && since_start < settings.warmup_steps) {
    return settings.lr * static_cast<double>(since_start) / static_cast<double>(settings.warmup_steps);
  }
  const double total = static_cast<double>(settings.lr_total_steps);
  const double left = 1.0 - std::min(static_cast<double>(step), total) / total;
  return settings.lr * std::pow(left, settings.lr_power);
}

}  // namespace flashbert
