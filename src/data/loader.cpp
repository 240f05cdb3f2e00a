#include "data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "core/clock.h"
#include "core/error.h"
#include "core/log.h"

namespace flashbert {

DataSet open_data_set(const std::filesystem::path& path, std::int64_t max_positions) {
  DataSet set;
  for (const auto& file : list_shards(path)) {
    ShardInfo info = inspect_shard(file);
    if (info.samples == 0) {
      spdlog::warn("{} holds no samples and is skipped", file.string());
      continue;
    }
    check<InputError>(info.seq_len <= max_positions, "{} has rows of {} tokens, the model has {} positions; raise max-positions",
                      file.string(), info.seq_len, max_positions);
    if (info.seq_len > 0) {
      const bool first = set.seq_len == 0;
      check<InputError>(first || (set.seq_len == info.seq_len && set.max_predictions == info.max_predictions),
                        "{} has rows of {} tokens and {} predictions, other files of {} have {} and {}", file.string(), info.seq_len,
                        info.max_predictions, path.string(), set.seq_len, set.max_predictions);
      set.seq_len = info.seq_len;
      set.max_predictions = info.max_predictions;
    }
    set.samples += info.samples;
    set.shards.push_back(std::move(info));
  }
  check<InputError>(set.samples > 0, "{} holds no samples: every shard in it is empty", path.string());
  return set;
}

namespace {

std::vector<std::int64_t> shard_sizes(const DataSet& data) {
  std::vector<std::int64_t> sizes;
  for (const ShardInfo& shard : data.shards) sizes.push_back(shard.samples);
  return sizes;
}

/// Samples by running index: keeps the shards of one window in memory, and of the next one those read ahead.
class WindowedSamples {
 public:
  WindowedSamples(const DataSet& data, const LoaderOptions& options)
      : data_(data), limits_(options.limits), order_(options.seed, shard_sizes(data), options.window_samples) {}

  /// Valid until a call with an index outside the window.
  SampleView at(std::int64_t index, SampleId* id) {
    if (!window_.holds(index)) open_window(index);
    *id = window_.order[static_cast<std::size_t>(index - window_.first_index)];
    return stores_.at(id->shard)[id->row];
  }

  /// Reads one more shard of the next window if one is missing. Called between steps, so that a window's end does not make training
  /// wait for all its successor's shards at once.
  void read_ahead() {
    if (window_.order.empty()) return;
    if (next_.order.empty()) next_ = order_.window_at(window_.end());
    for (const std::int32_t shard : next_.shards) {
      if (stores_.contains(shard)) continue;
      read(shard);
      return;
    }
  }

 private:
  void open_window(std::int64_t index) {
    window_ = next_.holds(index) ? std::move(next_) : order_.window_at(index);
    next_ = {};
    std::erase_if(stores_, [&](const auto& held) {
      return std::find(window_.shards.begin(), window_.shards.end(), held.first) == window_.shards.end();
    });
    for (const std::int32_t shard : window_.shards) {
      if (!stores_.contains(shard)) read(shard);
    }
  }
  void read(std::int32_t shard) { stores_.emplace(shard, read_shard(data_.shards[static_cast<std::size_t>(shard)], limits_)); }

  const DataSet& data_;
  SampleLimits limits_;
  SampleOrder order_;
  SampleOrder::Window window_, next_;
  std::map<std::int32_t, SampleStore> stores_;
};

void check_options(const LoaderOptions& options, int depth) {
  check<ConfigError>(options.ranks > 0 && options.rank >= 0 && options.rank < options.ranks, "rank {} is not one of {} ranks", options.rank,
                     options.ranks);
  check<ConfigError>(options.global_batch > 0 && options.global_batch % options.ranks == 0,
                     "global-batch {} cannot be shared equally by {} ranks; choose a multiple", options.global_batch, options.ranks);
  check<ConfigError>(options.micro_batch > 0, "micro-batch is {}; at least 1 is needed", options.micro_batch);
  check<ConfigError>(options.first_step >= 0 && depth > 0, "the loader cannot start at step {} with {} steps ahead", options.first_step,
                     depth);
}

}  // namespace

struct Loader::Implementation {
  Implementation(DataSet set, const LoaderOptions& loader_options, int depth)
      : data(std::move(set)), options(loader_options), samples(data, options) {
    check_options(options, depth);
    slots.resize(static_cast<std::size_t>(depth) + 1);
    const std::int64_t own = options.global_batch / options.ranks;
    for (StepBatch& slot : slots) {
      slot.micro_batches.resize(static_cast<std::size_t>((own + options.micro_batch - 1) / options.micro_batch));
      for (PackedBatch& batch : slot.micro_batches) batch.reserve(options.capacity);
      slot.slots.reserve(static_cast<std::size_t>(own));
    }
  }

  void compose(std::int64_t step, StepBatch& out) {
    const std::int64_t own = options.global_batch / options.ranks;
    const std::int64_t first_own = own * options.rank;
    out.step = step;
    out.global_masked = 0;
    out.global_tokens = 0;
    out.slots.clear();
    for (PackedBatch& batch : out.micro_batches) batch.clear();
    for (std::int64_t slot = 0; slot < options.global_batch; ++slot) {
      const std::int64_t index = step * options.global_batch + slot;
      SampleId id;
      const SampleView sample = samples.at(index, &id);
      out.global_masked += static_cast<std::int64_t>(sample.masked_positions.size());
      out.global_tokens += static_cast<std::int64_t>(sample.token_ids.size());
      check_capacity(sample, id);
      if (slot < first_own || slot >= first_own + own) continue;
      out.slots.push_back(id);
      out.micro_batches[static_cast<std::size_t>((slot - first_own) / options.micro_batch)].append(sample,
                                                                                                   static_cast<std::uint64_t>(index));
    }
    for (PackedBatch& batch : out.micro_batches) batch.finish();
  }

  /// Buffers are planned for the capacity's share of one sequence; a longer or denser sample would not fit them.
  void check_capacity(const SampleView& sample, const SampleId& id) const {
    const BatchCapacity& capacity = options.capacity;
    if (capacity.sequences == 0) return;
    const auto refuse_above = [&](std::size_t count, std::int64_t most, const char* what) {
      check<InputError>(static_cast<std::int64_t>(count) <= most, "{}: row {} has {} {}, the run is planned for at most {} a sample",
                        data.shards[static_cast<std::size_t>(id.shard)].path.string(), id.row, count, what, most);
    };
    refuse_above(sample.token_ids.size(), capacity.tokens / capacity.sequences, "tokens");
    refuse_above(sample.masked_positions.size(), capacity.masked / capacity.sequences, "masked positions");
  }

  /// The thread: fills free slots in ring order until told to stop.
  void run() {
    try {
      for (std::int64_t step = options.first_step;; ++step) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopping || composed - taken < static_cast<std::int64_t>(slots.size()) - 1; });
        if (stopping) return;
        StepBatch& slot = slots[static_cast<std::size_t>(composed) % slots.size()];
        lock.unlock();
        compose(step, slot);
        lock.lock();
        ++composed;
        changed.notify_all();
        lock.unlock();
        samples.read_ahead();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
      changed.notify_all();
    }
  }

  const StepBatch& next() {
    if (!thread.joinable()) throw std::logic_error("Loader::next() before start()");
    const auto start = Clock::now();
    std::unique_lock lock(mutex);
    if (current >= 0) {
      ++taken;  // the step handed out before is free again
      changed.notify_all();
    }
    changed.wait(lock, [&] { return composed > current + 1 || error; });
    if (composed <= current + 1) std::rethrow_exception(error);
    ++current;
    wait_s = seconds_since(start);
    return slots[static_cast<std::size_t>(current) % slots.size()];
  }

  DataSet data;
  LoaderOptions options;
  WindowedSamples samples;
  std::vector<StepBatch> slots;  ///< a ring: composed - taken of them are in use, the one at `current` is in the caller's hands
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t composed = 0;  ///< steps finished by the thread
  std::int64_t taken = 0;     ///< steps given back by the caller
  std::int64_t current = -1;  ///< step (from the first) in the caller's hands
  bool stopping = false;
  std::exception_ptr error;
  double wait_s = 0.0;
  std::thread thread;
};

Loader::Loader(DataSet data, const LoaderOptions& options, int depth)
    : implementation_(std::make_unique<Implementation>(std::move(data), options, depth)) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(implementation_->mutex);
    implementation_->stopping = true;
    implementation_->changed.notify_all();
  }
  if (implementation_->thread.joinable()) implementation_->thread.join();
}

void Loader::start() {
  Implementation& self = *implementation_;
  if (!self.thread.joinable()) self.thread = std::thread([&self] { self.run(); });
}

const StepBatch& Loader::next() { return implementation_->next(); }

double Loader::wait_s() const { return implementation_->wait_s; }

std::vector<PackedBatch> load_evaluation(const DataSet& data, std::int64_t samples, std::int64_t micro_batch, int rank, int ranks,
                                         const SampleLimits& limits) {
  check<InputError>(samples <= data.samples, "eval-samples is {}, the evaluation set holds {}", samples, data.samples);
  const std::int64_t total = samples == 0 ? data.samples : samples;
  const std::int64_t begin = total * rank / ranks;
  const std::int64_t end = total * (rank + 1) / ranks;
  std::vector<PackedBatch> batches;
  std::int64_t index = 0;
  for (const ShardInfo& shard : data.shards) {
    if (index >= end) break;
    if (index + shard.samples <= begin) {
      index += shard.samples;
      continue;
    }
    const SampleStore store = read_shard(shard, limits);
    for (std::int64_t row = 0; row < store.size(); ++row, ++index) {
      if (index < begin || index >= end) continue;
      if (batches.empty() || batches.back().sequences() == micro_batch) {
        if (!batches.empty()) batches.back().finish();
        batches.emplace_back().clear();
      }
      batches.back().append(store[row], static_cast<std::uint64_t>(index));
    }
  }
  if (!batches.empty()) batches.back().finish();
  return batches;
}

}  // namespace flashbert
