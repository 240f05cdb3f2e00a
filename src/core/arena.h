#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace flashbert {

/// A place booked in an arena plan; use it with the Arena made from the same plan.
struct BufferId {
  std::int32_t index = -1;
};

/// The list of every buffer of a run, made before any memory exists: it can be printed, added up and refused.
class ArenaPlan {
 public:
  static constexpr std::int64_t kAlignment = 256;  ///< bytes; every buffer starts on a multiple
  struct Entry {
    std::string group;  ///< "weights", "gradients", "optimizer", "activations", "workspace", "batch"
    std::string name;
    Dtype dtype = Dtype::kF32;
    Shape shape;
    std::int64_t offset = 0;  ///< bytes
  };

  /// Books a contiguous buffer. Buffers lie in the order of booking.
  BufferId book(std::string group, std::string name, Dtype dtype, const Shape& shape);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] std::int64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::int64_t group_bytes(const std::string& group) const;
  /// One line a group and the total, in MiB.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Entry> entries_;
  std::int64_t total_bytes_ = 0;
};

/// One mapping for all buffers of a plan: anonymous memory on huge pages, touched (zeroed) here so that no step pays for a
/// page fault (fresh 4 KiB pages cost 12 us on virtual machines). Throws EnvironmentError when the memory cannot be had.
class Arena {
 public:
  explicit Arena(const ArenaPlan& plan);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  [[nodiscard]] Tensor tensor(BufferId id) const;
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<Tensor> tensors_;
  void* base_ = nullptr;
  std::int64_t bytes_ = 0;
};

}  // namespace flashbert
