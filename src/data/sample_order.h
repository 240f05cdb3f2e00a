#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flashbert {

/// Where a sample lies: index into the shard list and row in that shard.
struct SampleId {
  std::int32_t shard = 0;
  std::int64_t row = 0;
  friend bool operator==(const SampleId&, const SampleId&) = default;
};

/// The training order as a pure function of (seed, running sample index): in every epoch each sample occurs exactly once. Shards
/// are permuted per epoch and taken in windows of consecutive shards holding at most window_samples rows together (at least one
/// shard); the rows of a window are permuted together. So a reader holds one window (and the next) in memory, not the data set.
/// Random words from Philox with a key derived from the seed, in a counter domain apart from dropout's (docs/metrics.md).
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, std::span<const std::int64_t> shard_samples, std::int64_t window_samples = 262144);

  struct Window {
    std::int64_t first_index = 0;  ///< running index of the window's first sample
    std::vector<std::int32_t> shards;
    std::vector<SampleId> order;  ///< the window's samples in training order
    [[nodiscard]] std::int64_t end() const { return first_index + static_cast<std::int64_t>(order.size()); }
    [[nodiscard]] bool holds(std::int64_t index) const { return index >= first_index && index < end(); }
  };
  /// The window that holds running index `index` (0-based, unbounded: epochs follow each other).
  [[nodiscard]] Window window_at(std::int64_t index) const;
  [[nodiscard]] std::int64_t samples_per_epoch() const { return samples_per_epoch_; }

 private:
  std::uint64_t seed_;
  std::vector<std::int64_t> shard_samples_;
  std::int64_t window_samples_;
  std::int64_t samples_per_epoch_ = 0;
};

}  // namespace flashbert
