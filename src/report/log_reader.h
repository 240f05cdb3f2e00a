#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flashbert {

/// Words that the official reader of convergence points searches whole records for, whatever their key.
struct Mentions {
  bool global_batch_size = false, benchmark = false, evaluation = false, train_samples = false, run_stop = false;
  [[nodiscard]] bool any() const { return global_batch_size || benchmark || evaluation || train_samples || run_stop; }
};

/// One MLPerf record of a log.
struct LogRecord {        // NOLINT(bugprone-exception-escape): clang-tidy takes the JSON library's debug checks for a throwing move
  std::int64_t line = 0;  ///< of the file, from 1
  double time_ms = 0.0;
  std::string key;
  nlohmann::json value, metadata;
  Mentions mentions;
};

/// Something about one line of a log; line 0 = about the file as a whole.
struct LogFinding {
  std::string rule, message;
  std::int64_t line = 0;
};

/// What a log holds, in the order of the file.
struct MlperfLog {
  std::vector<LogRecord> records;  ///< those that were asked for, and those that mention a word of Mentions
  std::int64_t record_count = 0;   ///< all records
  std::vector<LogFinding> broken;  ///< records that cannot be read: a failure each, of which the first kMostFindings are kept
  std::int64_t broken_count = 0;
  Mentions broken_mentions;           ///< of the records that cannot be read
  std::vector<LogFinding> invisible;  ///< what the official tools pass over in silence; the first kMostFindings
  static constexpr std::size_t kMostFindings = 20;
};

/// Reads a log in any form that the official parser reads, in one pass and with memory for what is kept only (a gigabyte takes a few
/// seconds): a record is a line that holds the mark ":::MLLOG " and a JSON object behind its last mark; text before it is dropped; lines
/// end with LF, CR or CR LF; bytes that are no UTF-8 are Latin-1; NaN and Infinity are numbers. Files compressed by gzip are read alike.
/// keep: whether records of a key are wanted. Throws InputError where the file cannot be read.
MlperfLog read_mlperf_log(const std::filesystem::path& path, const std::function<bool(std::string_view key)>& keep);

/// Whether the first megabyte holds a record: tells logs from other files of a folder.
bool looks_like_mlperf_log(const std::filesystem::path& path);

}  // namespace flashbert
