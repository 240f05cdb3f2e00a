#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "core/cpu/cpu_context.h"
#include "kernels/ops.h"

namespace flashbert::testing {

/// When a lagging device runs what was enqueued.
enum class Lag {
  kLatest,  ///< nothing before the host waits, and then only what the awaited event needs
  kRandom,  ///< after every call a random number of tasks, from random streams, in any order that the events allow
};

/// A device whose memory the host cannot read and whose work runs late, to show without a GPU that code keeps the rules of core/context.h.
/// Calls and copies are queued per stream and run on the CPU when the host waits or (kRandom) at random; what is missing between streams is
/// then missing in the result. Device memory is protected pages, opened only while queued work runs: a stray read is a segmentation fault,
/// Tensor::data throws. Pinned memory is filled with 0xA5 as soon as a copy from it has run. Events that are never recorded count as
/// reached.
class LaggingContext final : public Context {
 public:
  explicit LaggingContext(Lag lag, int threads = 2, std::uint64_t seed = 1);
  ~LaggingContext() override;

  [[nodiscard]] Device device() const override { return Device::kCpu; }
  [[nodiscard]] std::string name() const override { return "lagging"; }
  [[nodiscard]] std::string description() const override { return "a lagging device, " + cpu_.description(); }
  [[nodiscard]] std::string arithmetic() const override { return cpu_.arithmetic(); }
  [[nodiscard]] bool has_bf16() const override { return cpu_.has_bf16(); }
  [[nodiscard]] Buffer allocate(std::int64_t bytes, MemoryKind kind) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;
  void record(Event& event, Stream stream) override;
  void order(Stream stream, const Event& event) override;
  [[nodiscard]] bool reached(const Event& event) const override;
  void wait(const Event& event) override;
  void synchronize() override;

  /// What an operation is to the device: run when its turn comes.
  void enqueue(Stream stream, std::function<void()> work);
  [[nodiscard]] CpuContext& cpu() { return cpu_; }

  /// What the host has done so far.
  struct Counts {
    std::int64_t waits = 0;       ///< calls of wait() for events that were not reached, and of synchronize(), read() and write()
    std::int64_t uploads = 0;     ///< copies from pinned or other host memory to the device
    std::int64_t downloads = 0;   ///< copies back
    std::int64_t operations = 0;  ///< enqueued
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  class Space;
  struct Task {
    std::function<void()> work;        ///< empty: only an event's record or wait
    std::int64_t awaited_stream = -1;  ///< run after so many tasks of that stream
    std::int64_t awaited_position = 0;
  };
  struct Queue {
    std::deque<Task> tasks;
    std::int64_t enqueued = 0, done = 0;  ///< tasks ever
  };
  struct Mapping {
    void* data;
    std::int64_t bytes;
    MemoryKind kind;
  };

  void do_copy(Stream stream, Tensor to, ConstTensor from) override;
  void release(void* data, std::int64_t bytes, MemoryKind kind) noexcept override;
  void push(Stream stream, Task task);
  void maybe_run();
  /// Runs the stream up to so many tasks, and of other streams what that waits for.
  void run_to(std::int64_t stream, std::int64_t position);
  [[nodiscard]] bool ready(const Queue& queue) const;
  void run_next(Queue& queue);
  void protect(int protection);
  [[nodiscard]] const Mapping* mapping_of(const void* address) const;

  CpuContext cpu_;
  Lag lag_;
  std::mt19937_64 random_;
  std::array<Queue, kStreams> queues_;
  std::unique_ptr<Space> space_;
  std::vector<Mapping> mappings_;
  Counts counts_;
};

/// The CPU's operations on a lagging device: checked when they are called, run when their turn comes.
std::unique_ptr<Ops> make_lagging_ops(LaggingContext& context);

}  // namespace flashbert::testing
