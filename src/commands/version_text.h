#pragma once

#include <string>

namespace flashbert {

/// What `--version` prints: this build, the libraries it runs with and the processor's level. Needs no device, file or launcher.
std::string version_text();

}  // namespace flashbert
