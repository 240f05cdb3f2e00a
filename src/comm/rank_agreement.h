#pragma once

#include <cstdint>
#include <exception>
#include <span>

#include "comm/ranks.h"
#include "core/error.h"

namespace flashbert {

/// What the ranks of a run settle among themselves. All functions are collective; alone they cost nothing.
class RankAgreement {
 public:
  explicit RankAgreement(Ranks& ranks) : ranks_(ranks) {}

  /// Runs f on every rank; all learn whether it failed on any, so that none waits in a later collective and the root can end the log.
  /// Rethrows f's error where it failed, throws PeerError elsewhere. f must contain no collective.
  template <class F>
  void together(const F& f) {
    std::exception_ptr error;
    try {
      f();
    } catch (...) {
      error = std::current_exception();
    }
    const std::int64_t failed = greatest(error ? 1 : 0);
    if (error) std::rethrow_exception(error);
    check<PeerError>(failed == 0, "another rank failed; its own message tells why");
  }

  std::int64_t greatest(std::int64_t value) {
    ranks_.all_reduce_max(std::span<std::int64_t>(&value, 1));
    return value;
  }
  std::int64_t least(std::int64_t value) { return -greatest(-value); }
  /// Compares the upper 63 bits.
  bool equal(std::uint64_t value) {
    const auto half = static_cast<std::int64_t>(value >> 1);
    return least(half) == greatest(half);
  }

 private:
  Ranks& ranks_;
};

}  // namespace flashbert
