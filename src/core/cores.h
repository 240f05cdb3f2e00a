#pragma once

#include <array>
#include <cstdint>

namespace flashbert {

/// One bit a core.
using CoreMask = std::array<std::uint64_t, 16>;

/// The cores that the scheduler allows this process; all of the machine where there are more than the mask has bits.
CoreMask bound_cores();
int count_cores(const CoreMask& mask);

}  // namespace flashbert
