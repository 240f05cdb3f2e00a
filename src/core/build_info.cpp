#include "core/build_info.h"

namespace flashbert {

std::string version() { return FLASHBERT_VERSION; }

std::map<std::string, std::string> build_info() {
  return {{"version", version()},
          {"compiler", FLASHBERT_COMPILER},
          {"build", FLASHBERT_BUILD_TYPE},
          {"cuda", "off"},
          {"sanitizers", FLASHBERT_SANITIZERS}};
}

}  // namespace flashbert
