#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/context.h"
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
    std::string group;  ///< what it is for: "weights", "copies", "gradients", "optimizer", "activations", "backward", "workspace", "batch"
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

/// All buffers of a plan in one piece of a context's memory, zeroed. Throws EnvironmentError with the whole plan when the memory cannot be
/// had.
class Arena {
 public:
  Arena(const ArenaPlan& plan, Context& context);
  [[nodiscard]] Tensor tensor(BufferId id) const { return tensors_.at(static_cast<std::size_t>(id.index)); }
  [[nodiscard]] std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  std::vector<Tensor> tensors_;
};

}  // namespace flashbert
