#include "support/lagging_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace flashbert::testing {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr int kUsedStaging = 0xa5;

std::int64_t mapped_bytes(std::int64_t bytes) { return (std::max<std::int64_t>(bytes, 1) + kPage - 1) / kPage * kPage; }

struct LaggingEvent final : public Event {
  std::int64_t stream = -1;
  std::int64_t position = 0;  ///< reached when so many tasks of the stream are done
};

}  // namespace

class LaggingContext::Space final : public MemorySpace {
 public:
  [[nodiscard]] bool readable() const override { return open.load(); }
  std::atomic<bool> open = false;
};

LaggingContext::LaggingContext(Lag lag, int threads, std::uint64_t seed)
    : cpu_(threads), lag_(lag), random_(seed), space_(std::make_unique<Space>()) {}

LaggingContext::~LaggingContext() = default;

Buffer LaggingContext::allocate(std::int64_t bytes, MemoryKind kind) {
  const auto size = static_cast<std::size_t>(mapped_bytes(bytes));
  void* const data =
      mmap(nullptr, size, kind == MemoryKind::kPinned ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check<EnvironmentError>(data != MAP_FAILED, "cannot map {} bytes", bytes);
  mappings_.push_back({data, bytes, kind});
  return {*this, data, bytes, kind, kind == MemoryKind::kPinned ? nullptr : space_.get()};
}

void LaggingContext::release(void* data, std::int64_t bytes, MemoryKind /*kind*/) noexcept {
  // Queued work may still refer to it, as it would on a device, whose memory is freed only when it is idle.
  for (std::size_t stream = 0; stream < queues_.size(); ++stream) run_to(static_cast<std::int64_t>(stream), queues_[stream].enqueued);
  std::erase_if(mappings_, [&](const Mapping& mapping) { return mapping.data == data; });
  munmap(data, static_cast<std::size_t>(mapped_bytes(bytes)));
}

const LaggingContext::Mapping* LaggingContext::mapping_of(const void* address) const {
  for (const Mapping& mapping : mappings_) {
    const auto* const begin = static_cast<const std::byte*>(mapping.data);
    if (address >= begin && address < begin + mapping.bytes) return &mapping;
  }
  return nullptr;
}

void LaggingContext::protect(int protection) {
  for (const Mapping& mapping : mappings_) {
    if (mapping.kind == MemoryKind::kDevice) mprotect(mapping.data, static_cast<std::size_t>(mapped_bytes(mapping.bytes)), protection);
  }
  space_->open = protection != PROT_NONE;
}

bool LaggingContext::ready(const Queue& queue) const {
  if (queue.tasks.empty()) return false;
  const Task& task = queue.tasks.front();
  return task.awaited_stream < 0 || queues_[static_cast<std::size_t>(task.awaited_stream)].done >= task.awaited_position;
}

void LaggingContext::run_next(Queue& queue) {
  const Task task = std::move(queue.tasks.front());
  queue.tasks.pop_front();
  ++queue.done;
  if (!task.work) return;
  protect(PROT_READ | PROT_WRITE);
  try {
    task.work();
  } catch (...) {
    protect(PROT_NONE);
    throw;
  }
  protect(PROT_NONE);
}

void LaggingContext::run_to(std::int64_t stream, std::int64_t position) {
  Queue& queue = queues_[static_cast<std::size_t>(stream)];
  while (queue.done < position) {
    const Task& task = queue.tasks.front();
    if (task.awaited_stream >= 0) run_to(task.awaited_stream, task.awaited_position);
    run_next(queue);
  }
}

void LaggingContext::maybe_run() {
  if (lag_ != Lag::kRandom) return;
  for (auto count = std::uniform_int_distribution<int>(0, 3)(random_); count > 0; --count) {
    Queue& queue = queues_[std::uniform_int_distribution<std::size_t>(0, queues_.size() - 1)(random_)];
    if (ready(queue)) run_next(queue);
  }
}

void LaggingContext::push(Stream stream, Task task) {
  Queue& queue = queues_[static_cast<std::size_t>(stream)];
  queue.tasks.push_back(std::move(task));
  ++queue.enqueued;
  maybe_run();
}

void LaggingContext::enqueue(Stream stream, std::function<void()> work) {
  ++counts_.operations;
  push(stream, {.work = std::move(work)});
}

void LaggingContext::do_copy(Stream stream, Tensor to, ConstTensor from) {
  const bool from_host = from.space() == nullptr;
  const bool to_host = to.space() == nullptr;
  if (from_host && !to_host) ++counts_.uploads;
  if (to_host && !from_host) ++counts_.downloads;
  const Mapping* const source = mapping_of(from.raw());
  const bool staged = source != nullptr && source->kind == MemoryKind::kPinned;
  push(stream, {.work = [to, from, staged] {
         std::memcpy(to.raw(), from.raw(), static_cast<std::size_t>(to.bytes()));
         if (staged) std::memset(const_cast<void*>(from.raw()), kUsedStaging, static_cast<std::size_t>(from.bytes()));
       }});
}

std::unique_ptr<Event> LaggingContext::make_event() { return std::make_unique<LaggingEvent>(); }

void LaggingContext::record(Event& event, Stream stream) {
  auto& own = dynamic_cast<LaggingEvent&>(event);
  push(stream, {});
  own.stream = static_cast<std::int64_t>(stream);
  own.position = queues_[static_cast<std::size_t>(stream)].enqueued;
}

void LaggingContext::order(Stream stream, const Event& event) {
  const auto& own = dynamic_cast<const LaggingEvent&>(event);
  if (own.stream >= 0) push(stream, {.work = {}, .awaited_stream = own.stream, .awaited_position = own.position});
}

bool LaggingContext::reached(const Event& event) const {
  const auto& own = dynamic_cast<const LaggingEvent&>(event);
  return own.stream < 0 || queues_[static_cast<std::size_t>(own.stream)].done >= own.position;
}

void LaggingContext::wait(const Event& event) {
  if (reached(event)) return;
  ++counts_.waits;
  const auto& own = dynamic_cast<const LaggingEvent&>(event);
  run_to(own.stream, own.position);
}

void LaggingContext::synchronize() {
  ++counts_.waits;
  for (std::size_t stream = 0; stream < queues_.size(); ++stream) run_to(static_cast<std::int64_t>(stream), queues_[stream].enqueued);
}

}  // namespace flashbert::testing
