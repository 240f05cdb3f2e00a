#include "kernels/kernel_libraries.h"

#include "kernels/cpu/linear/onednn.h"

namespace flashbert {

std::vector<std::pair<std::string, std::string>> kernel_libraries() { return {{"oneDNN", cpu::onednn_version()}}; }

}  // namespace flashbert
