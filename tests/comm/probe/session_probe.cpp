#include <cstdio>

#include "comm/mpi_session.h"
#include "comm/ranks.h"
#include "core/error.h"

/// Prints "ranks N active A", or the error's text with its exit code.
int main(int argc, char** argv) {
  try {
    const flashbert::MpiSession session(&argc, &argv);
    const auto ranks = flashbert::make_ranks(session);
    std::printf("ranks %d active %d\n", ranks->size(), session.active() ? 1 : 0);
    return 0;
  } catch (const flashbert::Error& error) {
    std::printf("%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
