#pragma once

#include <cstdint>

namespace flashbert {

/// Memory that this process may still take without swapping or being killed, in bytes: the least of what the machine has left
/// (MemAvailable) and what its control group allows; a very large number where neither tells.
std::int64_t available_memory_bytes();

}  // namespace flashbert
