#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace flashbert {

enum class Device { kCpu, kCuda };

/// Instruction sets that CPU kernels are compiled for, lowest first.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16 };

std::string_view name_of(Isa isa);

/// The best level this processor has. FLASHBERT_MAX_ISA (avx2, avx512, avx512_bf16) caps it, for tests of the lower paths;
/// any other value is a ConfigError, a processor below AVX2 an EnvironmentError.
Isa detect_isa();

struct ContextOptions {
  Device device = Device::kCpu;
  int threads = 0;  ///< 0 = all cores this process is bound to
};

/// Where ops run: device, instruction set, threads, stream. One per process; made by make_context, outlives its Ops.
class Context {
 public:
  explicit Context(const ContextOptions& options);
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] Isa isa() const { return isa_; }
  /// True where products of bf16 run on bf16 hardware; elsewhere --precision bf16 computes in f32 and the log says so.
  [[nodiscard]] bool has_bf16() const { return isa_ >= Isa::kAvx512Bf16; }
  /// Waits until all enqueued ops are done (at once on the CPU, where ops run when called).
  virtual void synchronize() {}

 private:
  Device device_;
  int threads_;
  Isa isa_;
};

/// cpu, cuda or auto; throws ConfigError for other names, EnvironmentError for cuda in a build or on a machine without it.
Device parse_device(std::string_view name);

/// Throws EnvironmentError when the device is not in this build or machine, ConfigError when threads is below 0 or above
/// 1024. Sets the OpenMP thread count.
std::unique_ptr<Context> make_context(const ContextOptions& options);

}  // namespace flashbert
