#pragma once

#include <cstddef>

namespace flashbert::testing {

/// Counts what asks for memory in this test program while it is switched on, told apart by the library that asked: all forms of operator
/// new, malloc, calloc, realloc, aligned allocation and mmap (of calls that leave their library; libc's own inner ones are not seen).
class AllocationHook {
 public:
  struct Counts {
    long ours = 0, onednn = 0, openmp = 0;
    std::size_t largest_bytes = 0;  ///< of one request, by whoever asked
  };
  /// False where a sanitizer owns them.
  static bool available();
  static void start();
  static Counts stop();
};

}  // namespace flashbert::testing
