#pragma once

#include <cstdint>

namespace flashbert {

/// value / divisor, rounded up; value not negative, divisor positive.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) { return (value + divisor - 1) / divisor; }
/// The least multiple at or above value.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) { return ceil_div(value, multiple) * multiple; }

}  // namespace flashbert
