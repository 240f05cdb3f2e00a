#pragma once

#include <string>
#include <vector>

#include "commands/setting_sources.h"
#include "train/decided_values.h"

namespace flashbert {

/// All keys with values and origins as TOML; reads back to the same settings. What the run decided stands as decided, with what was asked,
/// its origin and the reason: `seed = 123  # asked: 0 (default); drawn from the system`.
std::string settings_text(const ResolvedSettings& settings, const std::vector<DecidedValue>& decided);

/// The environment variables of this process that change what a run does, as TOML comments.
std::string environment_text();

}  // namespace flashbert
