#include "report/mllog.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "core/error.h"

namespace flashbert {
namespace {

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A log of a whole benchmark run takes about 100 KiB.
constexpr off_t kReservedBytes = off_t{1} << 20;

/// Takes disk blocks beyond the end of the file, so that a run that fills the disk can still write why it ended. File systems that cannot
/// do this lose nothing else.
void reserve_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  static_cast<void>(::fallocate(file, FALLOC_FL_KEEP_SIZE, 0, kReservedBytes));
  ::close(file);
}

}  // namespace

void MlLog::open(const std::filesystem::path& path) {
  path_ = path;
  file_.open(path, std::ios::trunc);
  check<EnvironmentError>(file_.good(), "cannot write {}; choose another --out", path.string());
  reserve_disk(path);
  flush();
}

void MlLog::flush() {
  if (!file_.is_open()) return;
  file_ << pending_ << std::flush;
  pending_.clear();
  check<EnvironmentError>(file_.good(), "cannot write to {}: the disk may be full", path_.string());
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
  pending_ += ":::MLLOG " + record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  flush();
}

}  // namespace flashbert
