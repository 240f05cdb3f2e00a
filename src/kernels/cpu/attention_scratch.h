#pragma once

#include <cstdint>

namespace flashbert::cpu {

/// Cuts typed pieces, each on a cache line, off a block of memory.
class ScratchCutter {
 public:
  explicit ScratchCutter(void* start) : next_(static_cast<char*>(start)) {}
  template <class T>
  T* take(std::int64_t count) {
    T* const piece = reinterpret_cast<T*>(next_);
    next_ += (count * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return piece;
  }

 private:
  char* next_;
};

}  // namespace flashbert::cpu
