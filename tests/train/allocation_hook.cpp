#include "allocation_hook.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

// Sanitizers own all of these themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FLASHBERT_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FLASHBERT_COUNTS_ALLOCATIONS 0
#else
#define FLASHBERT_COUNTS_ALLOCATIONS 1
#endif
#else
#define FLASHBERT_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> g_counting{false};
std::atomic<long> g_ours{0};
std::atomic<long> g_onednn{0};
std::atomic<long> g_openmp{0};
std::atomic<std::size_t> g_largest{0};

/// Counts one allocation, told apart by the library that asked for it.
[[maybe_unused]] void count(const void* caller, std::size_t bytes) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  std::size_t largest = g_largest.load();
  while (bytes > largest && !g_largest.compare_exchange_weak(largest, bytes)) {
  }
  Dl_info info{};
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  const auto is = [&](const char* library) { return known && std::strstr(info.dli_fname, library) != nullptr; };
  ++(is("dnnl") ? g_onednn : is("libgomp") || is("libomp") ? g_openmp : g_ours);
}

}  // namespace

#if FLASHBERT_COUNTS_ALLOCATIONS
// glibc's own, under the names that it keeps for replacements like these.
extern "C" {
void* __libc_malloc(std::size_t bytes);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t number, std::size_t bytes);       // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t bytes);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t bytes);  // NOLINT(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) noexcept {
  count(__builtin_return_address(0), bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) noexcept {
  count(__builtin_return_address(0), number * bytes);
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  count(__builtin_return_address(0), bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  count(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count(__builtin_return_address(0), bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  count(__builtin_return_address(0), bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
void* mmap(void* at, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  count(__builtin_return_address(0), bytes);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
}

namespace {

void* counted_new(std::size_t bytes, std::size_t alignment, const void* caller) {
  count(caller, bytes);
  if (void* const memory = __libc_memalign(alignment, bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted_new(bytes, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new[](std::size_t bytes) { return counted_new(bytes, alignof(std::max_align_t), __builtin_return_address(0)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_new(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted_new(bytes, static_cast<std::size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
#endif

namespace flashbert::testing {

bool AllocationHook::available() { return FLASHBERT_COUNTS_ALLOCATIONS != 0; }

void AllocationHook::start() {
  g_ours = 0;
  g_onednn = 0;
  g_openmp = 0;
  g_largest = 0;
  g_counting = true;
}

AllocationHook::Counts AllocationHook::stop() {
  g_counting = false;
  return {.ours = g_ours.load(), .onednn = g_onednn.load(), .openmp = g_openmp.load(), .largest_bytes = g_largest.load()};
}

}  // namespace flashbert::testing
