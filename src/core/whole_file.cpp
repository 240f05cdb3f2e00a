#include "core/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// Writes and flushes everything; 0 or the errno of what failed.
int write_file(const fs::path& path, std::string_view content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int failure = write_bytes(descriptor, content);
  if (failure == 0 && ::fsync(descriptor) != 0 && errno != EINVAL) failure = errno;  // EINVAL: nothing to flush on this file system
  if (::close(descriptor) != 0 && failure == 0) failure = errno;
  return failure;
}

}  // namespace

int write_bytes(int descriptor, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check<EnvironmentError>(!error && fs::is_directory(folder, error), "cannot make the folder {}: {}; choose another place", folder.string(),
                          error ? error.message() : "a file is in its way");
}

void write_whole_file(const fs::path& path, std::string_view content) {
  // Hidden, so that what a killed process leaves is never taken for a file of its kind.
  const fs::path partial = path.parent_path() / fmt::format(".{}.partial", path.filename().string());
  int failure = write_file(partial, content);
  if (failure == 0 && std::rename(partial.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return;
  std::error_code ignored;
  fs::remove(partial, ignored);
  const fs::space_info space = fs::space(path.parent_path().empty() ? fs::path(".") : path.parent_path(), ignored);
  throw EnvironmentError(fmt::format("cannot write {}: {} ({} bytes are needed, {} are free); make room or choose another folder",
                                     path.string(), std::strerror(failure), content.size(), ignored ? 0 : space.available));
}

}  // namespace flashbert
