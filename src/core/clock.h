#pragma once

#include <chrono>

namespace flashbert {

/// The clock of all durations: it never jumps, and its zero means nothing.
using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
/// Seconds since the clock's zero.
inline double clock_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

}  // namespace flashbert
