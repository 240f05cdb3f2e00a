#include "commands/arguments.h"

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

}  // namespace flashbert
