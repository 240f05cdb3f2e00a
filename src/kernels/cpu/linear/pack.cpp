#include "kernels/cpu/linear/pack.h"

#include <algorithm>
#include <cstring>

#include "core/dtype.h"

namespace flashbert::cpu {
namespace {

template <class To, class From>
void copy_row(To* to, const From* from, std::int64_t columns) {
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(to, from, static_cast<std::size_t>(columns) * sizeof(To));
  } else {
    for (std::int64_t c = 0; c < columns; ++c) {
      if constexpr (std::is_same_v<To, bf16>) {
        to[c] = to_bf16(from[c]);
      } else {
        to[c] = to_float(from[c]);
      }
    }
  }
}

template <class To, class From>
void copy(const CopyBlock& args) {
  for (std::int64_t r = 0; r < args.padded_rows; ++r) {
    To* const to = static_cast<To*>(args.to.data) + r * args.to.stride;
    const std::int64_t columns = r < args.rows ? args.columns : 0;
    if (columns > 0) copy_row(to, static_cast<const From*>(args.from.data) + r * args.from.stride, columns);
    std::fill(to + columns, to + std::max(columns, args.padded_columns), To{});
  }
}

}  // namespace

void copy_block(const CopyBlock& args) {
  const bool to_bf16 = args.to.dtype == Dtype::kBf16;
  if (args.from.dtype == Dtype::kBf16) {
    to_bf16 ? copy<bf16, bf16>(args) : copy<float, bf16>(args);
  } else {
    to_bf16 ? copy<bf16, float>(args) : copy<float, float>(args);
  }
}

}  // namespace flashbert::cpu
