#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace flashbert::testing {

/// A shell command's standard output and exit status; its standard error goes where this process's goes.
struct CommandResult {
  int status = -1;
  std::string output;
};

inline CommandResult run_command(const std::string& command) {
  CommandResult result;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) result.output.append(block.data(), n);
  const int status = ::pclose(pipe);
  result.status = status < 0 || status % 256 != 0 ? -1 : status / 256;
  return result;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// A path as one word of a shell command.
inline std::string shell_word(const std::filesystem::path& path) { return fmt::format("'{}'", path.string()); }

/// The Python that has MLCommons' checkers, from a virtual environment beside the build folder that the first caller makes. Absent where
/// neither the environment nor a package registry is at hand: tests that need it skip.
inline std::optional<std::string> checker_python() {
  const std::filesystem::path script = std::filesystem::path(FLASHBERT_SOURCE_DIR) / "tests/support/checker_venv.sh";
  const std::filesystem::path folder = std::filesystem::path(FLASHBERT_BINARY_DIR) / ".." / "checker-venv";
  const CommandResult result = run_command(fmt::format("{} {}", shell_word(script), shell_word(folder)));
  if (result.status != 0) return std::nullopt;
  return lines_of(result.output).back();
}

/// Runs tests/support/official_checks.py and parses its lines; `arguments` as its first lines describe.
inline std::vector<nlohmann::json> official_checks(const std::string& python, const std::string& arguments) {
  const std::filesystem::path script = std::filesystem::path(FLASHBERT_SOURCE_DIR) / "tests/support/official_checks.py";
  std::vector<nlohmann::json> results;
  for (const std::string& line : lines_of(run_command(fmt::format("{} {} {}", shell_word(python), shell_word(script), arguments)).output))
    results.push_back(nlohmann::json::parse(line));
  return results;
}

}  // namespace flashbert::testing

/// Binds `name` to the checkers' Python or skips the test with the reason.
#define FLASHBERT_CHECKER_OR_SKIP(name)                                                                                               \
  const auto name##_found = ::flashbert::testing::checker_python();                                                                   \
  if (!name##_found) GTEST_SKIP() << "no official checkers: tests/support/checker_venv.sh could not install them (reason on stderr)"; \
  const std::string& name = *name##_found
