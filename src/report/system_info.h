#pragma once

#include <map>
#include <string>

namespace flashbert {

/// What the program can know about the machine, as JSON: host, processor, sockets, logical cores, memory in bytes, operating system,
/// kernel, and under "software" the compiler, build and library versions handed in. What cannot be found out is "unknown".
std::string system_json(const std::map<std::string, std::string>& libraries);

}  // namespace flashbert
