#pragma once

#include "core/context.h"

namespace flashbert {

/// Instruction sets that CPU kernels are compiled for, lowest first.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16 };

std::string_view name_of(Isa isa);

/// The best level this processor has. FLASHBERT_MAX_ISA (avx2, avx512, avx512_bf16) caps it, for tests of the lower paths;
/// any other value is a ConfigError, a processor below AVX2 an EnvironmentError.
Isa detect_isa();

/// Bytes, shared among threads where there are many: fresh memory is touched by the threads that will use it.
void copy_bytes(void* to, const void* from, std::int64_t bytes, int threads);
void zero_bytes(void* data, std::int64_t bytes, int threads);

/// The processor as a device: its memory is the host's, everything runs when it is called, events are always reached.
class CpuContext final : public Context {
 public:
  /// threads 0 = all cores this process is bound to. Throws ConfigError below 0 or above 1024. Sets the OpenMP thread count.
  explicit CpuContext(int threads = 0);
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] Isa isa() const { return isa_; }

  [[nodiscard]] Device device() const override { return Device::kCpu; }
  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string arithmetic() const override { return std::string(name_of(isa_)); }
  [[nodiscard]] bool has_bf16() const override { return isa_ >= Isa::kAvx512Bf16; }
  /// Anonymous memory on huge pages (fresh 4 KiB pages cost 12 us each on virtual machines).
  [[nodiscard]] Buffer allocate(std::int64_t bytes, MemoryKind kind) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return std::make_unique<Event>(); }
  void record(Event& /*event*/, Stream /*stream*/) override {}
  void order(Stream /*stream*/, const Event& /*event*/) override {}
  [[nodiscard]] bool reached(const Event& /*event*/) const override { return true; }
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}

 private:
  void do_copy(Stream stream, Tensor to, ConstTensor from) override;
  void release(void* data, std::int64_t bytes, MemoryKind kind) noexcept override;
  int threads_;
  Isa isa_;
};

}  // namespace flashbert
