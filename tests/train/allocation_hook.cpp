#include "allocation_hook.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define FLASHBERT_COUNTS_ALLOCATIONS 0
#else
#define FLASHBERT_COUNTS_ALLOCATIONS 1
#endif

namespace {

std::atomic<bool> g_counting{false};
std::atomic<long> g_ours{0};
std::atomic<long> g_onednn{0};

/// Counts one allocation, told apart by the library that asked for it.
[[maybe_unused]] void count(const void* caller) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  Dl_info info{};
  const bool onednn = dladdr(caller, &info) != 0 && info.dli_fname != nullptr && std::strstr(info.dli_fname, "dnnl") != nullptr;
  ++(onednn ? g_onednn : g_ours);
}

}  // namespace

#if FLASHBERT_COUNTS_ALLOCATIONS
void* operator new(std::size_t bytes) {
  count(__builtin_return_address(0));
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
#endif

namespace flashbert::testing {

bool AllocationHook::available() { return FLASHBERT_COUNTS_ALLOCATIONS != 0; }

void AllocationHook::start() {
  g_ours = 0;
  g_onednn = 0;
  g_counting = true;
}

AllocationHook::Counts AllocationHook::stop() {
  g_counting = false;
  return {g_ours.load(), g_onednn.load()};
}

}  // namespace flashbert::testing
