#include "data/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// Writes and flushes everything; 0 or the errno of what failed.
int write_all(const fs::path& path, std::span<const char> content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  int failure = 0;
  while (!content.empty() && failure == 0) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written >= 0) {
      content = content.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      failure = errno;
    }
  }
  if (failure == 0 && ::fsync(descriptor) != 0 && errno != EINVAL) failure = errno;  // EINVAL: nothing to flush on this file system
  if (::close(descriptor) != 0 && failure == 0) failure = errno;
  return failure;
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check<EnvironmentError>(!error && fs::is_directory(folder, error), "cannot make the folder {}: {}; choose another place", folder.string(),
                          error ? error.message() : "a file is in its way");
}

void write_whole_file(const fs::path& path, std::span<const char> content) {
  fs::path partial = path;
  partial += ".partial";
  int failure = write_all(partial, content);
  if (failure == 0 && std::rename(partial.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return;
  std::error_code ignored;
  fs::remove(partial, ignored);
  const fs::space_info space = fs::space(path.parent_path().empty() ? fs::path(".") : path.parent_path(), ignored);
  throw EnvironmentError(fmt::format("cannot write {}: {} ({} bytes are needed, {} are free); make room or choose another folder",
                                     path.string(), std::strerror(failure), content.size(), ignored ? 0 : space.available));
}

}  // namespace flashbert
