#pragma once

#include <map>
#include <string>

namespace flashbert {

/// What the program can know about the machine, as JSON: host, processor, cores, memory, kernel, and the libraries handed in.
std::string system_json(const std::map<std::string, std::string>& libraries);

}  // namespace flashbert
