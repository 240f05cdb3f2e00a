#pragma once

#include "comm/collectives.h"
#include "comm/ranks.h"

namespace flashbert {

/// The other ranks of a run, to settle things with and to add up tensors with. Both are owned by main, or by a test.
struct Peers {
  Ranks& ranks;
  Collectives& collectives;
};

}  // namespace flashbert
