#pragma once

#include "comm/mpi_session.h"
#include "comm/ranks.h"

namespace flashbert {

// Set once by main, before the tests: MPI can be started only once in a process.
inline const MpiSession* session = nullptr;
inline Ranks* world = nullptr;

}  // namespace flashbert
