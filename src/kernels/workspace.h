#pragma once

#include <cstdint>
#include <string>

#include "core/error.h"

namespace flashbert {

/// The plan that Ops::prepare was given does not cover this call. Memory is never taken in its place in the middle of a step.
struct WorkspaceTooSmall : BrokenPromise {
  WorkspaceTooSmall(const char* op_name, std::int64_t needed_bytes, std::int64_t bound_bytes)
      : BrokenPromise(fmt::format("{} needs {} bytes of workspace, {} are bound: the plan given to Ops::prepare does not cover this call",
                                  op_name, needed_bytes, bound_bytes)),
        op(op_name),
        needed(needed_bytes),
        bound(bound_bytes) {}
  std::string op;
  std::int64_t needed, bound;
};

inline void require_workspace(const char* op, std::int64_t needed, std::int64_t bound) {
  if (needed > bound) throw WorkspaceTooSmall(op, needed, bound);
}

}  // namespace flashbert
