#include "commands/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace flashbert {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Underscores between digits are left out; anywhere else they stay and make the number unreadable.
std::string without_separators(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool separator = text[i] == '_' && i > 0 && i + 1 < text.size() && is_digit(text[i - 1]) && is_digit(text[i + 1]);
    if (!separator) plain.push_back(text[i]);
  }
  return plain;
}

std::string range_text(std::int64_t low, std::int64_t high) {
  return high >= kNoLimit ? fmt::format("at least {}", low) : fmt::format("{} to {}", low, high);
}

double read_double(std::string_view option, std::string_view text) {
  const std::string plain = without_separators(text);
  const char* begin = plain.data();
  if (plain.size() > 1 && plain[0] == '+' && plain[1] != '-') ++begin;
  double value = 0.0;
  const auto [end, error] = std::from_chars(begin, plain.data() + plain.size(), value);
  check<ConfigError>(error != std::errc::result_out_of_range, "{} is '{}', which no number of this kind can hold", option, text);
  check<ConfigError>(error == std::errc() && end == plain.data() + plain.size() && std::isfinite(value),
                     "{} is '{}', which is not a number", option, text);
  return value;
}

std::string with_point(const std::string& digits) { return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits; }

}  // namespace

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t low, std::int64_t high) {
  const std::string plain = without_separators(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  const std::string range = range_text(low, high);
  check<ConfigError>(error != std::errc::result_out_of_range, "{} is '{}', too large for a whole number; it must be {}", option, text,
                     range);
  if (error != std::errc() || end != plain.data() + plain.size()) {
    const double real = read_double(option, text);
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it not every whole number is a double
    check<ConfigError>(real == std::floor(real), "{} is '{}'; it must be a whole number", option, text);
    check<ConfigError>(std::abs(real) <= kExact, "{} is '{}', too large for a whole number; it must be {}", option, text, range);
    value = static_cast<std::int64_t>(real);
  }
  check<ConfigError>(value >= low && value <= high, "{} is '{}'; it must be {}", option, text, range);
  return value;
}

std::uint64_t parse_unsigned(std::string_view option, std::string_view text) {
  return static_cast<std::uint64_t>(parse_integer(option, text, 0, std::numeric_limits<std::int64_t>::max()));
}

double parse_real(std::string_view option, std::string_view text, double low, double high) {
  const double value = read_double(option, text);
  check<ConfigError>(value >= low && value <= high, "{} is '{}'; it must be {} to {}", option, text, low, high);
  return value;
}

bool parse_boolean(std::string_view option, std::string_view text) {
  check<ConfigError>(text == "true" || text == "false", "{} is '{}'; it must be true or false", option, text);
  return text == "true";
}

std::string real_text(double value) { return with_point(fmt::format("{}", value)); }
std::string real_text(float value) { return with_point(fmt::format("{}", value)); }

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  const std::size_t farthest = std::min((word.size() + 1) / 2, std::max<std::size_t>(2, word.size() / 3));
  std::size_t best_distance = farthest + 1;
  for (const std::string& candidate : candidates) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t changed = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace flashbert
