#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace flashbert {

/// Sends spdlog's default logger to standard error with "[time] [rank] [level]"; level is trace, debug, info, warn, error or off
/// (throws ConfigError otherwise). Ranks other than 0 log warnings and errors only. Call once at start-up, after MPI is up.
void configure_log(int rank, std::string_view level);

}  // namespace flashbert
