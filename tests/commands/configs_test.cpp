#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "commands/setting_keys.h"
#include "commands/setting_sources.h"
#include "train/settings_check.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kConfigs = fs::path(FLASHBERT_SOURCE_DIR) / "configs";

/// The files are read with the data that their users give on the command line.
ResolvedSettings resolve_file(const fs::path& file) {
  return resolve_settings({.command_line = {{"train-data", "train"}, {"eval-data", "eval"}}, .config_file = file, .environment = {}});
}

TEST(Configs, EveryFileIsAValidRunOnOneAndOnTwoRanks) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    const ResolvedSettings resolved = resolve_file(entry.path());
    EXPECT_NO_THROW(validate(resolved.values, 1)) << entry.path();
    EXPECT_NO_THROW(validate(resolved.values, 2)) << entry.path();
  }
  EXPECT_GE(files, 6);
}

TEST(Configs, LargeIsTheBenchmark) {
  const TrainSettings large = resolve_file(kConfigs / "large.toml").values;
  const TrainSettings benchmark;  // the defaults are the benchmark's
  for (const KeySpec& key : train_keys()) {
    if (key.name.starts_with("save") || key.name.ends_with("-data")) continue;
    EXPECT_EQ(key.get(large), key.get(benchmark)) << key.name;
  }
}

TEST(Configs, TheReadmeExplainsEveryKey) {
  std::ostringstream text;
  text << std::ifstream(kConfigs / "README.md").rdbuf();
  std::string keys;  // first columns of the table
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| ")) keys += fmt::format(" {},", line.substr(2, line.find(" |", 2) - 2));
  }
  for (const KeySpec& key : train_keys()) EXPECT_THAT(keys, HasSubstr(fmt::format(" {},", key.name)));
}

}  // namespace
}  // namespace flashbert
