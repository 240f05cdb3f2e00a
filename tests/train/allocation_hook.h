#pragma once

namespace flashbert::testing {

/// Counts calls of operator new in this test program while it is switched on, told apart by the library that asked.
class AllocationHook {
 public:
  struct Counts {
    long ours = 0, onednn = 0;
  };
  /// False where a sanitizer owns operator new.
  static bool available();
  static void start();
  static Counts stop();
};

}  // namespace flashbert::testing
