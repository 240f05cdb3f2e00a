#include "report/system_info.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>

namespace flashbert {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

/// Distinct physical packages; some virtual machines tell none, which counts as one.
int socket_count() {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> packages;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("physical id")) packages.insert(line);
  }
  return std::max(static_cast<int>(packages.size()), 1);
}

std::string operating_system() {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string value = line.substr(kKey.size());
    std::erase(value, '"');
    return value;
  }
  return "unknown";
}

}  // namespace

std::string system_json(const std::map<std::string, std::string>& libraries) {
  utsname kernel{};
  uname(&kernel);
  struct sysinfo memory {};
  sysinfo(&memory);
  nlohmann::ordered_json json = {
      {"host", kernel.nodename},
      {"processor", processor_name()},
      {"sockets", socket_count()},
      {"cores", static_cast<int>(std::thread::hardware_concurrency())},
      {"memory_bytes", static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit},
      {"operating_system", operating_system()},
      {"kernel", kernel.release},
      {"accelerators", 0},
      {"software", nlohmann::ordered_json::object()},
  };
  for (const auto& [name, version] : libraries) json["software"][name] = version;
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace flashbert
