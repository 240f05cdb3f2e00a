#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace flashbert {

enum class Device { kCpu, kCuda };

/// Where a buffer lies: in the device's memory, or in host memory that the device copies from and to without waiting (page-locked).
enum class MemoryKind { kDevice, kPinned };

/// The queues of a device. What is enqueued on one runs in order; between two only events order.
enum class Stream { kCompute, kCopy, kCommunication };
inline constexpr int kStreams = 3;

class Context;

/// Owner of memory of a context, which must outlive it. Move-only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Context& context, void* data, std::int64_t bytes, MemoryKind kind, const MemorySpace* space)
      : context_(&context), data_(data), space_(space), bytes_(bytes), kind_(kind) {}
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  /// A contiguous view that starts offset bytes into the buffer. Throws ShapeError where it does not fit.
  [[nodiscard]] Tensor tensor(Dtype dtype, const Shape& shape, std::int64_t offset = 0) const;

 private:
  void swap(Buffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(space_, other.space_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
  }
  Context* context_ = nullptr;
  void* data_ = nullptr;
  const MemorySpace* space_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::kDevice;
};

/// A point in a stream's order. Before it is first recorded it counts as reached.
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

/// One device: its memory and the order of its work. Ops (kernels/ops.h) enqueue on Stream::kCompute, collectives on
/// Stream::kCommunication. One per process; made by make_context; outlives its buffers, events and Ops. Used by one host thread at a time.
class Context {
 public:
  Context() = default;
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] virtual Device device() const = 0;
  /// "cpu" or "cuda", as log and report name it.
  [[nodiscard]] virtual std::string name() const = 0;
  /// For people: "device cpu, 4 threads, instruction set avx512".
  [[nodiscard]] virtual std::string description() const = 0;
  /// What decides the last bit of results beside the build: ranks of one run must agree on it. "avx512_bf16" on a CPU.
  [[nodiscard]] virtual std::string arithmetic() const = 0;
  /// True where products of bf16 run on bf16 hardware; elsewhere --precision bf16 computes in f32 and the log says so.
  [[nodiscard]] virtual bool has_bf16() const = 0;

  /// Memory on a 256-byte border, zeroed, touched, so that no step pays for its first use. Throws EnvironmentError with what is asked and
  /// what is free.
  [[nodiscard]] virtual Buffer allocate(std::int64_t bytes, MemoryKind kind) = 0;

  // Order. These enqueue and never wait.
  /// Contiguous views of equal type and element count, anywhere. Host memory must be pinned where the host is not to wait for the copy, and
  /// must keep its contents until an event recorded after the copy is reached.
  void copy(Stream stream, Tensor to, ConstTensor from);
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// The event is reached when all that is on the stream now has run.
  virtual void record(Event& event, Stream stream) = 0;
  /// What is enqueued on the stream from now on runs after the event's last record.
  virtual void order(Stream stream, const Event& event) = 0;

  // Waiting: on the host, outside the path of a step.
  [[nodiscard]] virtual bool reached(const Event& event) const = 0;
  virtual void wait(const Event& event) = 0;
  /// Until everything enqueued so far, on all streams, has run.
  virtual void synchronize() = 0;

  /// Copies any host memory to a contiguous view, or back, and waits: for start-up, checkpoints and tools.
  void write(Tensor to, const void* from);
  void read(void* to, ConstTensor from);

 private:
  friend class Buffer;
  virtual void do_copy(Stream stream, Tensor to, ConstTensor from) = 0;
  virtual void release(void* data, std::int64_t bytes, MemoryKind kind) noexcept = 0;
};

struct ContextOptions {
  Device device = Device::kCpu;
  int threads = 0;  ///< of a CPU; 0 = all cores this process is bound to
};

/// "cpu" and "auto" are the CPU, "cuda" is CUDA, whether or not this build has it (make_context says so); ConfigError for other names.
Device parse_device(std::string_view name);

/// Throws EnvironmentError when the device is not in this build or machine, ConfigError when threads is below 0 or above
/// 1024. Sets the OpenMP thread count.
std::unique_ptr<Context> make_context(const ContextOptions& options);

}  // namespace flashbert
