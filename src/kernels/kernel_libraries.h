#pragma once

#include <string>
#include <utility>
#include <vector>

namespace flashbert {

/// Name and version of the libraries that the backends of this build compute with: {"oneDNN", "2.7.3"}.
std::vector<std::pair<std::string, std::string>> kernel_libraries();

}  // namespace flashbert
