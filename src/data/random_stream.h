#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/philox.h"

namespace flashbert {

/// Random words that are a pure function of (seed, domain, stream): Philox with key = seed xor domain and counter = (draw, stream).
/// The domain keeps the words of different uses apart under one seed; dropout uses the seed itself as key.
class RandomStream {
 public:
  struct Id {
    std::uint64_t seed = 0;
    std::uint64_t domain = 0;
    std::uint32_t purpose = 0;
    std::uint64_t index = 0;  ///< which stream of that purpose
  };
  explicit RandomStream(const Id& id)
      : key_{static_cast<std::uint32_t>(id.seed ^ id.domain), static_cast<std::uint32_t>((id.seed ^ id.domain) >> 32)},
        counter_{0, id.purpose, static_cast<std::uint32_t>(id.index), static_cast<std::uint32_t>(id.index >> 32)} {}

  /// 64 random bits; a stream has 2^32 draws.
  std::uint64_t bits() {
    const auto words = Philox::random(counter_, key_);
    ++counter_[0];
    return static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  }
  /// Uniform in [0, count): 64 random bits modulo the count; the bias is below count / 2^64.
  std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(count)); }
  /// Uniform in [0, 1), a multiple of 2^-53.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// Fisher-Yates: every order equally likely.
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (auto i = static_cast<std::int64_t>(values.size()) - 1; i > 0; --i) {
      std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(below(i + 1))]);
    }
  }

 private:
  Philox::Key key_;
  Philox::Counter counter_;
};

}  // namespace flashbert
