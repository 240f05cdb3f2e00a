// A library to be loaded before a program: writes, one line a call and in the order of the calls, what the program reads of shards, which
// records it adds to the MLPerf log and which folders it renames, to the file that CALL_ORDER names.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void tell(const std::string& line) {
  static const int file = [] {
    const char* const path = std::getenv("CALL_ORDER");
    return path == nullptr ? -1 : ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  // One call appends the whole line, so that lines of several threads do not mix.
  if (file >= 0) static_cast<void>(::syscall(SYS_write, file, line.data(), line.size()));
}

std::string path_of(int file) {
  char link[64];
  char path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t size = ::readlink(link, path, sizeof path);
  return {path, size > 0 ? static_cast<std::size_t>(size) : 0};
}

void tell_read(int file, ssize_t bytes) {
  if (bytes <= 0) return;
  const std::string path = path_of(file);
  if (path.ends_with(".hdf5")) tell("read " + std::to_string(bytes) + " " + path + "\n");
}

void tell_write(int file, std::string_view text) {
  constexpr std::string_view kMark = "\"key\":\"";
  if (!text.starts_with(":::MLLOG") || !path_of(file).ends_with("mllog.txt")) return;
  for (std::size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at + 1)) {
    const std::size_t begin = at + kMark.size();
    const std::string record(text.substr(begin, text.find('"', begin) - begin));
    // A thread that touches samples before the clock starts has the time to be seen.
    if (record == "run_start") ::usleep(200'000);
    tell("record " + record + "\n");
  }
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t read(int file, void* data, size_t bytes) {
  static auto* const real = next<ssize_t(int, void*, size_t)>("read");
  const ssize_t result = real(file, data, bytes);
  tell_read(file, result);
  return result;
}

ssize_t pread(int file, void* data, size_t bytes, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  const ssize_t result = real(file, data, bytes, offset);
  tell_read(file, result);
  return result;
}

ssize_t pread64(int file, void* data, size_t bytes, off64_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off64_t)>("pread64");
  const ssize_t result = real(file, data, bytes, offset);
  tell_read(file, result);
  return result;
}

ssize_t write(int file, const void* data, size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  tell_write(file, {static_cast<const char*>(data), bytes});
  return real(file, data, bytes);
}

ssize_t writev(int file, const iovec* parts, int count) {
  static auto* const real = next<ssize_t(int, const iovec*, int)>("writev");
  std::string text;
  for (int i = 0; i < count; ++i) text.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  tell_write(file, text);
  return real(file, parts, count);
}

int rename(const char* from, const char* to) {
  static auto* const real = next<int(const char*, const char*)>("rename");
  const int result = real(from, to);
  if (result == 0) tell(std::string("rename ") + to + "\n");
  return result;
}

}  // extern "C"
