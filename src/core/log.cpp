#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"

namespace flashbert {

void configure_log(int rank, std::string_view level) {
  const auto parsed = spdlog::level::from_str(std::string(level));
  check<ConfigError>(parsed != spdlog::level::off || level == "off", "log-level is '{}'; choose trace, debug, info, warn, error or off",
                     level);
  auto logger = std::make_shared<spdlog::logger>("flashbert", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern(rank == 0 ? "[%H:%M:%S.%e] %^[%l]%$ %v" : fmt::format("[%H:%M:%S.%e] [rank {}] %^[%l]%$ %v", rank));
  logger->set_level(rank == 0 ? parsed : std::max(parsed, spdlog::level::warn));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace flashbert
