#include "report/results_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

constexpr const char* kResultNames[] = {"config.toml", "mllog.txt",    "metrics.jsonl", "report.json",
                                        "system.json", "accuracy.txt", "checkpoints"};
constexpr std::size_t kProbeBytes = 64 * 1024;  // what the small files of a run need at least

}  // namespace

void prepare_results_folder(const fs::path& out, ExistingResults existing) {
  std::error_code error;
  fs::create_directories(out, error);
  check<EnvironmentError>(!error && fs::is_directory(out), "cannot make the results folder {}: {}", out.string(),
                          error ? error.message() : "a file of that name exists");
  for (const char* const name : kResultNames) {
    if (!fs::exists(out / name, error)) continue;
    check<ConfigError>(existing == ExistingResults::kOverwrite, "{} holds results already ({}); choose another --out or add --overwrite",
                       out.string(), name);
    fs::remove_all(out / name, error);
    check<EnvironmentError>(!error, "cannot remove {}: {}", (out / name).string(), error.message());
  }
  const fs::path probe = out / ".probe";
  write_text_atomically(probe, std::string(kProbeBytes, ' '));
  fs::remove(probe, error);
}

void write_text_atomically(const fs::path& path, std::string_view text) {
  const std::string temporary = path.string() + ".tmp";
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  check<EnvironmentError>(file >= 0, "cannot write {}: {}", path.string(), std::strerror(errno));
  bool good = true;
  std::size_t done = 0;
  while (good && done < text.size()) {
    const ssize_t written = ::write(file, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    good = written > 0;
    if (good) done += static_cast<std::size_t>(written);
  }
  good = good && ::fsync(file) == 0;
  const int cause = errno;
  ::close(file);
  if (good && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  ::unlink(temporary.c_str());
  throw EnvironmentError(fmt::format("cannot write {} ({} bytes): {}; free some space or choose another folder", path.string(), text.size(),
                                     std::strerror(good ? errno : cause)));
}

}  // namespace flashbert
