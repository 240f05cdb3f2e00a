#include "core/cpu/cpu_context.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/cores.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/rounding.h"

namespace flashbert {
namespace {

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
// Below this a parallel region costs more than it saves (a memset of 256 KiB takes about 10 us).
constexpr std::int64_t kParallelBytes = std::int64_t{1} << 18;
constexpr std::int64_t kCopyChunk = std::int64_t{1} << 16;

std::int64_t mapped_bytes(std::int64_t bytes) { return round_up(std::max<std::int64_t>(bytes, 1), kHugePage); }

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Isa hardware_isa() {
  __builtin_cpu_init();
  check<EnvironmentError>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
                          "this processor has no AVX2 and FMA; flashbert needs an x86-64 processor of 2013 or later");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (!avx512) return Isa::kAvx2;
  return __builtin_cpu_supports("avx512bf16") ? Isa::kAvx512Bf16 : Isa::kAvx512;
}

/// Runs f(begin, count) over [0, bytes) in chunks, shared among threads where it pays.
template <class Function>
void for_chunks(std::int64_t bytes, int threads, const Function& f) {
  const std::int64_t chunks = ceil_div(bytes, kCopyChunk);
#pragma omp parallel for num_threads(threads) schedule(static) if (bytes >= kParallelBytes)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t begin = chunk * kCopyChunk;
    f(begin, static_cast<std::size_t>(std::min(kCopyChunk, bytes - begin)));
  }
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

Isa detect_isa() {
  const Isa hardware = hardware_isa();
  const char* const cap = std::getenv("FLASHBERT_MAX_ISA");
  if (cap == nullptr || *cap == '\0') return hardware;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (name_of(isa) == cap) return isa < hardware ? isa : hardware;
  }
  throw ConfigError(fmt::format("FLASHBERT_MAX_ISA is '{}'; choose avx2, avx512 or avx512_bf16", cap));
}

void copy_bytes(void* to, const void* from, std::int64_t bytes, int threads) {
  for_chunks(bytes, threads, [=](std::int64_t begin, std::size_t count) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin, count);
  });
}

void zero_bytes(void* data, std::int64_t bytes, int threads) {
  for_chunks(bytes, threads, [=](std::int64_t begin, std::size_t count) { std::memset(static_cast<std::byte*>(data) + begin, 0, count); });
}

CpuContext::CpuContext(int threads) : threads_(threads == 0 ? count_cores(bound_cores()) : threads), isa_(detect_isa()) {
  check<ConfigError>(threads >= 0 && threads <= 1024, "threads is {}; choose 1 to 1024, or 0 for all cores", threads);
  omp_set_dynamic(0);
  omp_set_num_threads(threads_);
}

std::string CpuContext::description() const { return fmt::format("device cpu, {} threads, instruction set {}", threads_, name_of(isa_)); }

Buffer CpuContext::allocate(std::int64_t bytes, MemoryKind kind) {
  // The system promises more memory than it has and kills who takes it; an error before that can still be told.
  const std::int64_t mapped = mapped_bytes(bytes);
  const std::int64_t available = available_memory_bytes();
  check<EnvironmentError>(mapped <= available, "{:.1f} MiB are needed, {:.1f} MiB are free", mebibytes(mapped), mebibytes(available));
  // One huge page more than needed, so that the buffer can start on a huge-page boundary.
  void* const mapping =
      mmap(nullptr, static_cast<std::size_t>(mapped + kHugePage), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check<EnvironmentError>(mapping != MAP_FAILED, "cannot map {:.1f} MiB: {}", mebibytes(mapped), std::strerror(errno));
  auto* const start = static_cast<char*>(mapping);
  auto* const base = start + (kHugePage - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(start) % kHugePage)) % kHugePage;
  if (base > start) munmap(start, static_cast<std::size_t>(base - start));
  munmap(base + mapped, static_cast<std::size_t>(kHugePage - (base - start)));
  // Advice only: without huge pages the program is slower to start, not wrong.
  static_cast<void>(madvise(base, static_cast<std::size_t>(mapped), MADV_HUGEPAGE));
  zero_bytes(base, mapped, threads_);
  return {*this, base, bytes, kind, nullptr};
}

void CpuContext::release(void* data, std::int64_t bytes, MemoryKind /*kind*/) noexcept {
  munmap(data, static_cast<std::size_t>(mapped_bytes(bytes)));
}

void CpuContext::do_copy(Stream /*stream*/, Tensor to, ConstTensor from) { copy_bytes(to.raw(), from.raw(), to.bytes(), threads_); }

}  // namespace flashbert
