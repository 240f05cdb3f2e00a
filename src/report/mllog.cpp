#include "report/mllog.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "core/error.h"

namespace flashbert {
namespace {

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

MlLog::MlLog(const std::filesystem::path& path, bool echo) : file_(path, std::ios::trunc), path_(path), echo_(echo) {
  check<EnvironmentError>(file_.good(), "cannot write {}; choose another --out", path.string());
}

void MlLog::event(std::string_view key, const Json& value, Json metadata, SourceLocation where) {
  write("POINT_IN_TIME", key, value, std::move(metadata), where);
}

void MlLog::start(std::string_view key, Json metadata, SourceLocation where) {
  write("INTERVAL_START", key, nullptr, std::move(metadata), where);
}

void MlLog::stop(std::string_view key, Json metadata, SourceLocation where) {
  write("INTERVAL_END", key, nullptr, std::move(metadata), where);
}

void MlLog::write(std::string_view type, std::string_view key, const Json& value, Json metadata, const SourceLocation& where) {
  Json written = value;
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    metadata["text"] = std::isnan(value.get<double>()) ? "nan" : value.get<double>() > 0 ? "inf" : "-inf";
    written = nullptr;
  }
  metadata["file"] = std::filesystem::path(where.file).filename().string();
  metadata["lineno"] = where.line;
  const Json record = {{"namespace", ""}, {"time_ms", now_ms()}, {"event_type", type},
                       {"key", key},      {"value", written},    {"metadata", metadata}};
  // Text from outside (a platform's name) may be no UTF-8; a replaced character is better than a run that ends at its own log.
  const std::string line = ":::MLLOG " + record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  file_ << line << std::flush;
  check<EnvironmentError>(file_.good(), "cannot write to {}: the disk may be full", path_.string());
  if (echo_) {
    std::fputs(line.c_str(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace flashbert
