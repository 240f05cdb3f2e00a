#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace flashbert {

/// Memory for the variable-length rows of one H5Dread: a bump allocator whose blocks all go at once, also when the read fails half-way.
/// The library asks for one piece a row and would otherwise make one malloc each and leave them to a reclaim call that changed its name
/// between releases.
class VlenArena {
 public:
  /// For H5Pset_vlen_mem_manager, with the arena as `info`. Null (which the library turns into an error) when memory is short: an
  /// exception must not cross C code.
  static void* allocate(std::size_t bytes, void* info) noexcept {
    try {
      return static_cast<VlenArena*>(info)->take(bytes);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  /// Pieces live as long as the arena.
  static void release(void* /*piece*/, void* /*info*/) noexcept {}

 private:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);

  void* take(std::size_t bytes) {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > left_) {
      left_ = rounded > kBlockBytes ? rounded : kBlockBytes;
      // Not make_unique: it would clear memory that the read overwrites.
      blocks_.emplace_back(new std::byte[left_]);
      next_ = blocks_.back().get();
    }
    void* const piece = next_;
    next_ += rounded;
    left_ -= rounded;
    return piece;
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace flashbert
