#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace flashbert {

/// Logs to standard error with "[time] [level]", on ranks other than 0 with "[time] [rank N] [level]" and warnings and errors only; level
/// is trace, debug, info, warn, error or off (throws ConfigError otherwise). May be called again, as when the level is read.
void configure_log(int rank, std::string_view level);

}  // namespace flashbert
