#pragma once

#include <csignal>

namespace flashbert {

/// While it lives, SIGINT and SIGTERM only raise a flag (asked between steps); the handlers from before come back at the end. Another
/// signal, of either kind, a second or more after the first ends the process at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// The number of the signal that came, or 0.
  [[nodiscard]] int received() const;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

}  // namespace flashbert
