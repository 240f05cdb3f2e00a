#include "core/memory.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace flashbert {
namespace {

constexpr std::int64_t kUnknown = INT64_MAX;

/// The number behind a word of a file of "word number" lines; kUnknown where it is not found.
std::int64_t value_of(const char* path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, word.size(), word) != 0) continue;
    std::int64_t value = 0;
    return std::istringstream(line.substr(word.size())) >> value ? value : kUnknown;
  }
  return kUnknown;
}

std::int64_t value_of(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : kUnknown;  // "max" is no number
}

/// Version 2 shows a container its own group at the root. Pages of files that were only read can be dropped.
std::int64_t left_in_control_group() {
  const std::int64_t limit = value_of("/sys/fs/cgroup/memory.max");
  const std::int64_t used = value_of("/sys/fs/cgroup/memory.current");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  const std::int64_t droppable = value_of("/sys/fs/cgroup/memory.stat", "inactive_file ");
  return limit - used + (droppable == kUnknown ? 0 : droppable);
}

}  // namespace

std::int64_t available_memory_bytes() {
  const std::int64_t kibibytes = value_of("/proc/meminfo", "MemAvailable:");
  return std::min(kibibytes == kUnknown ? kUnknown : kibibytes * 1024, left_in_control_group());
}

}  // namespace flashbert
