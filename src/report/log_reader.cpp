#include "report/log_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "report/record_parser.h"

namespace flashbert {
namespace {

constexpr std::string_view kMark = ":::MLLOG";  // followed by a space, or else no tool sees the line
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestRecord = std::size_t{16} << 20;

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};
using LogFile = std::unique_ptr<std::remove_pointer_t<gzFile>, CloseFile>;

LogFile open_log(const std::filesystem::path& path) {
  std::error_code ignored;
  check<InputError>(std::filesystem::exists(path, ignored), "{} does not exist; name a log or a folder of logs", path.string());
  check<InputError>(!std::filesystem::is_directory(path, ignored), "{} is a folder, a log is wanted here", path.string());
  LogFile file(gzopen(path.c_str(), "rb"));
  check<InputError>(file != nullptr, "cannot open {}: {}", path.string(), std::strerror(errno));
  gzbuffer(file.get(), static_cast<unsigned>(kBlockBytes));
  return file;
}

/// The next bytes of the file; empty at its end.
std::string_view read_block(gzFile file, std::string& block, const std::filesystem::path& path) {
  block.resize(kBlockBytes);
  const int bytes = gzread(file, block.data(), static_cast<unsigned>(block.size()));
  int code = Z_OK;
  const char* const reason = gzerror(file, &code);
  check<InputError>(bytes >= 0, "cannot read {}: {}", path.string(), code == Z_ERRNO ? std::strerror(errno) : reason);
  return {block.data(), static_cast<std::size_t>(bytes)};
}

std::size_t end_of_line(std::string_view text, std::size_t from) { return text.find_first_of("\r\n", from); }

/// Memory-mapped speed for a search that mostly finds nothing.
std::size_t find_mark(std::string_view text, std::size_t from) {
  const void* const found = memmem(text.data() + from, text.size() - from, kMark.data(), kMark.size());
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

/// Cuts a stream of blocks into the texts of records. Between records nothing is kept but the few bytes that may begin a mark, so a line
/// of any length costs one pass.
class RecordScanner {
 public:
  using Take = std::function<void(std::string_view line, std::int64_t number)>;
  explicit RecordScanner(Take take) : take_(std::move(take)) {}

  void feed(std::string_view block) {
    pending_ += block;
    scan();
  }
  /// The last line need not end.
  void finish() {
    if (in_record_ && !pending_.empty()) give(pending_);
    pending_.clear();
  }

 private:
  void scan() {
    std::size_t at = 0;
    while (true) {
      if (!in_record_) {
        const std::size_t mark = find_mark(pending_, at);
        if (mark == std::string_view::npos) return keep_tail(at);
        count_lines(at, mark);
        at = mark;
        in_record_ = true;
        searched_ = 0;
      }
      const std::size_t end = end_of_line(pending_, at + searched_);
      if (end == std::string::npos) return keep_record(at);
      give(std::string_view(pending_).substr(at, end - at));
      in_record_ = false;
      at = end;
    }
  }
  void keep_tail(std::size_t at) {
    const std::size_t kept = std::min(pending_.size() - at, kMark.size() - 1);
    count_lines(at, pending_.size() - kept);
    pending_.erase(0, pending_.size() - kept);
  }
  /// The record goes on in the next block. Of one that never ends only so much is kept as makes it a broken one.
  void keep_record(std::size_t at) {
    pending_.erase(0, at);
    if (pending_.size() > kLongestRecord) pending_.resize(kLongestRecord);
    searched_ = pending_.size();
  }
  void count_lines(std::size_t from, std::size_t to) {
    const auto begin = pending_.begin();
    line_ += std::count(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to), '\n');
  }
  void give(std::string_view line) { take_(line, line_); }

  Take take_;
  std::string pending_;
  bool in_record_ = false;
  std::size_t searched_ = 0;
  std::int64_t line_ = 1;
};

class LogCollector {
 public:
  LogCollector(MlperfLog& log, const std::function<bool(std::string_view)>& keep) : log_(log), keep_(keep) {}

  /// line: from the first mark to the end of the line.
  void take(std::string_view line, std::int64_t number) {
    static const std::string token = std::string(kMark) + " ";
    const std::size_t last = line.rfind(token);
    if (last == std::string_view::npos) {
      note(log_.invisible, "mark", fmt::format("no space follows {}, so no tool sees this record; write '{} {{...}}'", kMark, kMark),
           number);
      return;
    }
    if (line.substr(0, last).find(token) != std::string_view::npos) {
      note(log_.invisible, "mark", "the line holds two records and only its last one counts; let one rank write whole lines", number);
    }
    read(line.substr(last + token.size()), number);
  }

 private:
  void read(std::string_view text, std::int64_t number) {
    ++log_.record_count;
    if (text.size() + 2 * kMark.size() >= kLongestRecord) return broken(text, "the record is longer than 16 MiB", number);
    ParsedRecord parsed = parse_record(text);
    if (!parsed.error.empty()) return broken(text, parsed.error, number);
    if (!parsed.record.mentions.any() && !keep_(parsed.record.key)) return;
    parsed.record.line = number;
    log_.records.push_back(std::move(parsed.record));
  }
  void broken(std::string_view text, const std::string& why, std::int64_t number) {
    ++log_.broken_count;
    add_mentions(mentions_of(text));
    note(log_.broken, "record", why, number);
  }
  void add_mentions(const Mentions& m) {
    Mentions& all = log_.broken_mentions;
    all = {.global_batch_size = all.global_batch_size || m.global_batch_size,
           .benchmark = all.benchmark || m.benchmark,
           .evaluation = all.evaluation || m.evaluation,
           .train_samples = all.train_samples || m.train_samples,
           .run_stop = all.run_stop || m.run_stop};
  }
  static void note(std::vector<LogFinding>& findings, const char* rule, std::string message, std::int64_t line) {
    if (findings.size() < MlperfLog::kMostFindings) findings.push_back({rule, std::move(message), line});
  }

  MlperfLog& log_;
  const std::function<bool(std::string_view)>& keep_;
};

}  // namespace

MlperfLog read_mlperf_log(const std::filesystem::path& path, const std::function<bool(std::string_view key)>& keep) {
  const LogFile file = open_log(path);
  MlperfLog log;
  LogCollector collector(log, keep);
  RecordScanner scanner([&](std::string_view line, std::int64_t number) { collector.take(line, number); });
  std::string block;
  for (std::string_view bytes = read_block(file.get(), block, path); !bytes.empty(); bytes = read_block(file.get(), block, path))
    scanner.feed(bytes);
  scanner.finish();
  return log;
}

bool looks_like_mlperf_log(const std::filesystem::path& path) {
  const LogFile file = open_log(path);
  std::string block;
  return read_block(file.get(), block, path).find(":::MLLOG ") != std::string_view::npos;
}

}  // namespace flashbert
