#include "data/sample_order.h"

#include <numeric>

#include "core/error.h"
#include "data/random_stream.h"

namespace flashbert {
namespace {

// Keeps the order's random words apart from dropout's and the start weights' under the same seed.
constexpr std::uint64_t kOrderDomain = 0x51ed'270b'93c4'6f1dULL;
enum Purpose : std::uint32_t { kShards = 1, kRows = 2 };

/// Epoch and window share the stream's index: a data set has fewer than 2^31 windows, a run fewer than 2^32 epochs.
RandomStream order_stream(std::uint64_t seed, Purpose purpose, std::int64_t epoch, std::int64_t window) {
  return RandomStream({.seed = seed,
                       .domain = kOrderDomain,
                       .purpose = purpose,
                       .index = static_cast<std::uint64_t>(epoch) << 32 | static_cast<std::uint64_t>(window)});
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, std::span<const std::int64_t> shard_samples, std::int64_t window_samples)
    : seed_(seed), shard_samples_(shard_samples.begin(), shard_samples.end()), window_samples_(window_samples) {
  samples_per_epoch_ = std::accumulate(shard_samples_.begin(), shard_samples_.end(), std::int64_t{0});
  check<InputError>(samples_per_epoch_ > 0, "the data set holds no sample");
}

SampleOrder::Window SampleOrder::window_at(std::int64_t index) const {
  const std::int64_t epoch = index / samples_per_epoch_;
  std::vector<std::int32_t> shards(shard_samples_.size());
  std::iota(shards.begin(), shards.end(), 0);
  order_stream(seed_, kShards, epoch, 0).shuffle(shards);
  Window window{.first_index = epoch * samples_per_epoch_, .shards = {}, .order = {}};
  std::int64_t window_number = 0;
  std::int64_t rows = 0;
  for (const std::int32_t shard : shards) {
    const std::int64_t more = shard_samples_[static_cast<std::size_t>(shard)];
    if (!window.shards.empty() && rows + more > window_samples_) {
      if (index < window.first_index + rows) break;
      window.first_index += rows;
      window.shards.clear();
      rows = 0;
      ++window_number;
    }
    window.shards.push_back(shard);
    rows += more;
  }
  window.order.reserve(static_cast<std::size_t>(rows));
  for (const std::int32_t shard : window.shards) {
    for (std::int64_t row = 0; row < shard_samples_[static_cast<std::size_t>(shard)]; ++row) window.order.push_back({shard, row});
  }
  order_stream(seed_, kRows, epoch, window_number).shuffle(window.order);
  return window;
}

}  // namespace flashbert
