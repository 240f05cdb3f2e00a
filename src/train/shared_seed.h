#pragma once

#include <cstdint>

#include "comm/ranks.h"

namespace flashbert {

/// The seed given, or for 0 63 bits of system entropy drawn by the root and shared. Collective.
std::uint64_t shared_seed(std::uint64_t given, Ranks& ranks);

}  // namespace flashbert
