#include "report/system_info.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace flashbert {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string operating_system() {
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PRETTY_NAME=")) return line.substr(13, line.size() - 14);
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
      {"cores", static_cast<int>(std::thread::hardware_concurrency())},
      {"memory_bytes", static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit},
      {"operating_system", operating_system()},
      {"kernel", kernel.release},
      {"accelerators", 0},
  };
  for (const auto& [name, version] : libraries) json["software"][name] = version;
  return json.dump(1) + "\n";
}

}  // namespace flashbert
