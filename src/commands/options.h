#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace CLI {
class App;
}

namespace flashbert {

/// The program's arguments in the one form that the parser reads without guessing: `--flag`, `--flag true` and `--flag=true` become
/// `--flag=true` for every boolean of the program and its commands, so that a boolean never takes a file name for its value.
/// Throws ConfigError for `--option=` without a value, and where another option stands in place of a value (`--out --dry-run`).
std::vector<std::string> plain_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

/// A value as its source gives it: a text of the command line or the environment, or the type that a file's own syntax tells.
using OptionValue = std::variant<std::string, std::int64_t, double, bool>;

/// Upper limits from here on are not worth telling: "at least 0" then. A quarter of the range, so that sums and small products of counts
/// fit.
inline constexpr std::int64_t kNoLimit = INT64_MAX / 4;

/// Whole text or nothing: `2048`, `2_048`, `3e6` (whole value), `-1`. Throws ConfigError naming the option and the value: not a number,
/// trailing text, not whole, out of [low, high].
std::int64_t parse_integer(std::string_view option, const OptionValue& value, std::int64_t low, std::int64_t high);

/// A seed: 0 to 2^63 - 1, because TOML and the official log checker read signed integers.
std::uint64_t parse_unsigned(std::string_view option, const OptionValue& value);

/// `4.25e-4`, `1e-4`, `0.1`, `2_048`; finite. Throws ConfigError likewise.
double parse_real(std::string_view option, const OptionValue& value, double low, double high);

/// true or false.
bool parse_boolean(std::string_view option, const OptionValue& value);

/// Any text.
std::string parse_text(std::string_view option, const OptionValue& value);

/// The fewest digits that read back to the same value of this type, always readable as a TOML float.
std::string real_text(double value);
std::string real_text(float value);

/// A whole-number option of at least `low`, read by parse_integer; its default is the value it has now.
void add_count(CLI::App& command, const std::string& name, std::int64_t& value, std::int64_t low, const std::string& help);

/// The candidate with the smallest edit distance, or empty when none is near: the distance may be 2, or a third of
/// the word where that is more, but never above half of a short word.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Throws the ConfigError for a word that this command does not know, with the nearest that it does.
[[noreturn]] void refuse_word(const CLI::App& command, const std::string& word);

/// "flashbert data inspect"
std::string full_name(const CLI::App& command);

}  // namespace flashbert
