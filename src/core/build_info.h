#pragma once

#include <map>
#include <string>

namespace flashbert {

/// "0.1.0"
std::string version();

/// Compiler, build type, CUDA on or off, sanitizers: what this binary is. No time stamps, so equal sources give equal binaries.
std::map<std::string, std::string> build_info();

}  // namespace flashbert
