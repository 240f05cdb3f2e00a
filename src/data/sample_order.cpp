#include "data/sample_order.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"

namespace flashbert {
namespace {

// Keeps the order's random words apart from dropout's and the start weights' under the same seed.
constexpr std::uint64_t kOrderDomain = 0x51ed'270b'93c4'6f1dULL;
enum class Purpose : std::uint32_t { kShards = 1, kRows = 2 };

/// Words of one stream: key = seed, counter = (draw, epoch as two words, purpose and window).
class Stream {
 public:
  Stream(std::uint64_t seed, std::int64_t epoch, Purpose purpose, std::int64_t window)
      : key_{static_cast<std::uint32_t>(seed ^ kOrderDomain), static_cast<std::uint32_t>((seed ^ kOrderDomain) >> 32)},
        epoch_(static_cast<std::uint32_t>(epoch)),
        window_(static_cast<std::uint32_t>(window)),
        purpose_(static_cast<std::uint32_t>(purpose)) {}

  /// Uniform in [0, count): 64 random bits modulo the count; the bias is below count / 2^64.
  std::int64_t below(std::int64_t count) {
    const auto words = Philox::random(
        {static_cast<std::uint32_t>(draw_), static_cast<std::uint32_t>(draw_ >> 32), epoch_ ^ (purpose_ << 28), window_}, key_);
    ++draw_;
    const std::uint64_t random = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
    return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(count));
  }

 private:
  Philox::Key key_;
  std::uint32_t epoch_, window_, purpose_;
  std::uint64_t draw_ = 0;
};

template <class T>
void shuffle(std::vector<T>& values, Stream stream) {
  for (auto i = static_cast<std::int64_t>(values.size()) - 1; i > 0; --i) {
    std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(stream.below(i + 1))]);
  }
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
  shuffle(shards, Stream(seed_, epoch, Purpose::kShards, 0));
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
  shuffle(window.order, Stream(seed_, epoch, Purpose::kRows, window_number));
  return window;
}

}  // namespace flashbert
