#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace flashbert {

/// The place of a call, for the metadata `file` and `lineno` that the official seed check reads. What std::source_location is for; clang 14
/// with g++ 12's library has none.
struct SourceLocation {
  const char* file = "";
  int line = 0;
  static constexpr SourceLocation current(const char* path = __builtin_FILE(), int number = __builtin_LINE()) { return {path, number}; }
};

/// Writes one MLPerf record a line (":::MLLOG {json}"), each flushed at once, to one file (root rank only). Non-finite numbers are
/// written as null with their text in the metadata, so every line is strict JSON; disk space for a whole log is taken at the start, where
/// the file system can. facts: docs/benchmark-rules.md.
class MlLog {
 public:
  /// Keeps records in memory until open(): the clock of initialisation starts before it is known that the results folder may be used.
  MlLog() = default;
  /// Throws EnvironmentError when the file cannot be written.
  explicit MlLog(const std::filesystem::path& path) { open(path); }
  void open(const std::filesystem::path& path);
  using Json = nlohmann::ordered_json;
  void event(std::string_view key, const Json& value, Json metadata = Json::object(), SourceLocation where = SourceLocation::current());
  void start(std::string_view key, Json metadata = Json::object(), SourceLocation where = SourceLocation::current());
  void stop(std::string_view key, Json metadata = Json::object(), SourceLocation where = SourceLocation::current());

 private:
  void write(std::string_view type, std::string_view key, const Json& value, Json metadata, const SourceLocation& where);
  void flush();
  std::ofstream file_;
  std::filesystem::path path_;
  std::string pending_;
};

}  // namespace flashbert
