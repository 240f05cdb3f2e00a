#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace flashbert {

/// The program's arguments in the one form that the parser reads without guessing: `--flag`, `--flag true` and `--flag=true` become
/// `--flag=true` for every boolean of the program and its commands, so that a boolean never takes a file name for its value.
/// Throws ConfigError for `--option=` without a value, and where another option stands in place of a value (`--out --dry-run`).
std::vector<std::string> plain_arguments(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace flashbert
