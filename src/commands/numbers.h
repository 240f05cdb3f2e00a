#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flashbert {

/// Upper limits from here on are not worth telling: "at least 0" then. A quarter of the range, so that sums and small products of counts
/// fit.
inline constexpr std::int64_t kNoLimit = INT64_MAX / 4;

/// Whole text or nothing: `2048`, `2_048`, `3e6` (whole value), `-1`. Throws ConfigError naming the option and the text: not a number,
/// trailing text, not whole, out of [low, high].
std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t low, std::int64_t high);

/// A seed: 0 to 2^63 - 1, because TOML and the official log checker read signed integers.
std::uint64_t parse_unsigned(std::string_view option, std::string_view text);

/// `4.25e-4`, `1e-4`, `0.1`, `2_048`; finite. Throws ConfigError likewise.
double parse_real(std::string_view option, std::string_view text, double low, double high);

/// true or false.
bool parse_boolean(std::string_view option, std::string_view text);

/// The fewest digits that read back to the same value of this type, always readable as a TOML float.
std::string real_text(double value);
std::string real_text(float value);

/// The candidate with the smallest edit distance, or empty when none is near: the distance may be 2, or a third of
/// the word where that is more, but never above half of a short word.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace flashbert
