#include "commands/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "core/error.h"

namespace flashbert {
namespace {

struct OptionNames {
  std::set<std::string> booleans, with_value;  ///< with the leading "--"
};

void collect(const CLI::App& app, OptionNames& names) {
  for (const CLI::Option* const option : app.get_options()) {
    // Help and version are flags that take nothing at all.
    if (option == app.get_help_ptr() || option == app.get_version_ptr()) continue;
    for (const std::string& name : option->get_lnames()) {
      (option->get_expected_min() == 0 ? names.booleans : names.with_value).insert("--" + name);
    }
  }
  for (const CLI::App* const command : app.get_subcommands(nullptr)) collect(*command, names);
}

bool is_boolean_text(const std::string& text) { return text == "true" || text == "false"; }

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

double read_double(std::string_view option, const std::string& text) {
  const std::string plain = without_separators(text);
  const char* begin = plain.data();
  if (plain.size() > 1 && plain[0] == '+' && plain[1] != '-') ++begin;
  double value = 0.0;
  const auto [end, error] = std::from_chars(begin, plain.data() + plain.size(), value);
  check<ConfigError>(error != std::errc::result_out_of_range, "{} is '{}', which no number of this kind can hold", option, text);
  check<ConfigError>(error == std::errc() && end == plain.data() + plain.size(), "{} is '{}', which is not a number", option, text);
  return value;
}

std::string with_point(const std::string& digits) { return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits; }

/// For messages.
std::string text_of(const OptionValue& value) {
  return std::visit([](const auto& known) { return fmt::format("{}", known); }, value);
}

/// A finite number.
double real_of(std::string_view option, const OptionValue& value) {
  double real = std::numeric_limits<double>::quiet_NaN();
  if (const auto* const text = std::get_if<std::string>(&value)) real = read_double(option, *text);
  if (const auto* const whole = std::get_if<std::int64_t>(&value)) real = static_cast<double>(*whole);
  if (const auto* const known = std::get_if<double>(&value)) real = *known;
  check<ConfigError>(std::isfinite(real), "{} is '{}', which is not a number", option, text_of(value));
  return real;
}

/// The digits of a text that is a whole number throughout; nothing where it must be read as a real.
std::optional<std::int64_t> whole_digits(std::string_view option, const std::string& text, const std::string& range) {
  const std::string plain = without_separators(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  check<ConfigError>(error != std::errc::result_out_of_range, "{} is '{}', too large for a whole number; it must be {}", option, text,
                     range);
  if (error != std::errc() || end != plain.data() + plain.size()) return std::nullopt;
  return value;
}

std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  for (const CLI::App* command : app.get_subcommands(nullptr)) words.push_back(command->get_name());
  return words;
}

std::string command_names(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names += (names.empty() ? "" : ", ") + command->get_name();
  return names;
}

}  // namespace

std::vector<std::string> plain_arguments(const CLI::App& app, const std::vector<std::string>& arguments) {
  OptionNames names;
  collect(app, names);
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string* const next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    if (names.booleans.contains(argument)) {
      const bool told = next != nullptr && is_boolean_text(*next);
      plain.push_back(argument + "=" + (told ? *next : "true"));
      if (told) ++i;
      continue;
    }
    if (names.with_value.contains(argument) && next != nullptr) {
      check<ConfigError>(!next->starts_with("--"), "{} needs a value, but {} follows; if that is the value, write {}={}", argument, *next,
                         argument, *next);
      check<ConfigError>(!next->empty(), "{} has an empty value; leave the option out for its default", argument);
      plain.push_back(argument);
      plain.push_back(*next);
      ++i;
      continue;
    }
    check<ConfigError>(!(argument.starts_with("--") && argument.ends_with("=")),
                       "{} has an empty value; leave the option out for its default", argument);
    plain.push_back(argument);
  }
  return plain;
}

std::int64_t parse_integer(std::string_view option, const OptionValue& value, std::int64_t low, std::int64_t high) {
  const std::string range = range_text(low, high);
  std::optional<std::int64_t> whole;
  if (const auto* const known = std::get_if<std::int64_t>(&value)) whole = *known;
  if (const auto* const text = std::get_if<std::string>(&value)) whole = whole_digits(option, *text, range);
  if (!whole) {
    const double real = real_of(option, value);
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it not every whole number is a double
    check<ConfigError>(real == std::floor(real), "{} is '{}'; it must be a whole number", option, text_of(value));
    check<ConfigError>(std::abs(real) <= kExact, "{} is '{}', too large for a whole number; it must be {}", option, text_of(value), range);
    whole = static_cast<std::int64_t>(real);
  }
  check<ConfigError>(*whole >= low && *whole <= high, "{} is '{}'; it must be {}", option, text_of(value), range);
  return *whole;
}

std::uint64_t parse_unsigned(std::string_view option, const OptionValue& value) {
  return static_cast<std::uint64_t>(parse_integer(option, value, 0, std::numeric_limits<std::int64_t>::max()));
}

double parse_real(std::string_view option, const OptionValue& value, double low, double high) {
  const double real = real_of(option, value);
  check<ConfigError>(real >= low && real <= high, "{} is '{}'; it must be {} to {}", option, text_of(value), low, high);
  return real;
}

bool parse_boolean(std::string_view option, const OptionValue& value) {
  if (const auto* const known = std::get_if<bool>(&value)) return *known;
  const std::string text = text_of(value);
  check<ConfigError>(is_boolean_text(text), "{} is '{}'; it must be true or false", option, text);
  return text == "true";
}

std::string parse_text(std::string_view option, const OptionValue& value) {
  const auto* const text = std::get_if<std::string>(&value);
  check<ConfigError>(text != nullptr, "{} is {}; it must be a text", option, text_of(value));
  return *text;
}

std::string real_text(double value) { return with_point(fmt::format("{}", value)); }
std::string real_text(float value) { return with_point(fmt::format("{}", value)); }

void add_count(CLI::App& command, const std::string& name, std::int64_t& value, std::int64_t low, const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&value, name, low](const std::string& text) { value = parse_integer(name, text, low, INT64_MAX / 4); }, help)
      ->default_str(std::to_string(value))
      ->trigger_on_parse();
}

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

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : full_name(*app.get_parent()) + " " + app.get_name();
}

void refuse_word(const CLI::App& app, const std::string& word) {
  const std::string bare = word.substr(0, word.find('='));
  const std::string near = nearest(bare, known_words(app));
  const std::string commands = command_names(app);
  const char* const kind = bare.starts_with("-") ? "option" : commands.empty() ? "word" : "command";
  std::string hint;
  if (!near.empty()) {
    hint = fmt::format(", the nearest known is {}", near);
  } else if (!commands.empty()) {
    hint = fmt::format("; there are {}", commands);
  }
  throw ConfigError(fmt::format("{}: unknown {} {}{}; see {} --help", full_name(app), kind, bare, hint, full_name(app)));
}

}  // namespace flashbert
