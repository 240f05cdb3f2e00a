// What documents promise about the repository.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = FLASHBERT_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Whether scripts/measure has this part: a function of that name, offered by its usage.
bool measured(const std::string& scripts, const std::string& part) {
  return std::regex_search(scripts, std::regex("\n" + part + "\\(\\) \\{")) &&
         scripts.find("# usage: scripts/measure") != std::string::npos &&
         std::regex_search(scripts, std::regex("# usage: scripts/measure [a-z|]*\\b" + part + "\\b"));
}

TEST(Documents, EveryTableOfPerformanceNamesTheScriptThatMakesIt) {
  const std::string scripts = text_of(kRoot / "scripts/measure");
  std::istringstream lines(text_of(kRoot / "docs/performance.md"));
  const std::regex command("`scripts/(measure ([a-z]+)|compare_with_pytorch)`");
  std::string section;
  std::string part;
  bool in_table = false;
  int tables = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) {
      section = line.substr(3);
      part.clear();
    }
    if (std::smatch match; std::regex_search(line, match, command)) part = match[2].matched ? match[2].str() : "compare_with_pytorch";
    const bool row = line.starts_with("|");
    // What was rejected is told in words, without figures.
    if (row && !in_table && section != "Tried and rejected") {
      ++tables;
      EXPECT_TRUE(part == "compare_with_pytorch" ? fs::exists(kRoot / "scripts" / part) : measured(scripts, part))
          << "a table under '" << section << "' names '" << part << "': " << line;
    }
    in_table = row;
  }
  EXPECT_GE(tables, 7);
}

}  // namespace
}  // namespace flashbert::testing
