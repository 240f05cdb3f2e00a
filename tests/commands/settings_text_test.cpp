#include "commands/settings_text.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "commands/setting_keys.h"
#include "settings_fixture.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class SettingsText : public testing::SettingsFixture {};

/// A value other than the default for every key, so that a key that is lost on the way shows.
std::vector<std::pair<std::string, std::string>> unusual_values() {
  std::vector<std::pair<std::string, std::string>> values;
  for (const KeySpec& key : train_keys()) {
    const std::string usual = key.get(TrainSettings{});
    std::string value;
    if (key.kind == KeySpec::Kind::kBoolean) {
      value = usual == "true" ? "false" : "true";
    } else if (key.kind == KeySpec::Kind::kText) {
      value = "a \"quoted\" \\ path # no comment\twith a tab";
      if (key.name == "clip") value = "before-reduce";
      if (key.name == "loss-normalisation") value = "per-rank";
      if (key.name == "precision") value = "f32";
    } else {
      const bool real = usual.find_first_of(".e") != std::string::npos;
      value = real ? "0.3141592653589793" : "12";
    }
    values.emplace_back(key.name, value);
  }
  return values;
}

TEST_F(SettingsText, TheStoredBlockAloneGivesTheSameSettings) {
  const ResolvedSettings first = resolve_settings({.command_line = unusual_values(), .config_file = {}, .environment = {}});
  const std::string text = settings_text(first, {}) + environment_text();
  const ResolvedSettings second = resolve_settings({.command_line = {}, .config_file = write("config.toml", text), .environment = {}});
  for (const KeySpec& key : train_keys()) {
    EXPECT_EQ(key.get(first.values), key.get(second.values)) << key.name;
    EXPECT_NE(key.get(first.values), key.get(TrainSettings{})) << key.name << " was not changed by its value";
  }
  EXPECT_EQ(first.values.optimizer.lr, 0.3141592653589793);
}

TEST_F(SettingsText, DefaultsReadBackToo) {
  const ResolvedSettings first = resolve_settings({});
  const ResolvedSettings second =
      resolve_settings({.command_line = {}, .config_file = write("config.toml", settings_text(first, {})), .environment = {}});
  for (const KeySpec& key : train_keys()) EXPECT_EQ(key.get(first.values), key.get(second.values)) << key.name;
}

TEST_F(SettingsText, TheStoredBlockTellsEveryOrigin) {
  const fs::path file = write("run.toml", "layers = 2\n");
  const std::string text = settings_text(
      resolve_settings({.command_line = {{"max-samples", "3e6"}}, .config_file = file, .environment = {{"FLASHBERT_SEED", "7"}}}), {});
  EXPECT_THAT(text, ::testing::ContainsRegex("max_samples = 3000000 +# command line\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("layers = 2 +# file .*run.toml\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("seed = 7 +# environment FLASHBERT_SEED\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("hidden = 1024 +# default\n"));
}

TEST_F(SettingsText, WhatTheRunDecidedStandsWithWhatWasAsked) {
  const ResolvedSettings asked =
      resolve_settings({.command_line = {}, .config_file = {}, .environment = {{"FLASHBERT_PRECISION", "bf16"}}});
  const std::string text = settings_text(
      asked, {{.key = "seed", .value = "123", .reason = "drawn"}, {.key = "precision", .value = "f32", .reason = "no bf16\nhere"}});
  EXPECT_THAT(text, ::testing::ContainsRegex("seed = 123 +# asked: 0 \\(default\\); drawn\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("precision = \"f32\" +# asked: bf16 \\(environment FLASHBERT_PRECISION\\); no bf16 here\n"));
  const TrainSettings again = resolve_settings({.command_line = {}, .config_file = write("config.toml", text), .environment = {}}).values;
  EXPECT_EQ(again.seed, 123);
  EXPECT_EQ(again.precision, Precision::kF32);
  EXPECT_EQ(again.global_batch, asked.values.global_batch);
}

TEST_F(SettingsText, TheEnvironmentThatMattersIsTold) {
  setenv("NCCL_FLASHBERT_TEST", "a\nb", 1);
  setenv("OMPI_MCA_orte_flashbert_test", "launcher's own", 1);
  const std::string text = environment_text();
  unsetenv("NCCL_FLASHBERT_TEST");
  unsetenv("OMPI_MCA_orte_flashbert_test");
  EXPECT_THAT(text, HasSubstr("# NCCL_FLASHBERT_TEST=a b\n"));  // a line break would end the comment
  EXPECT_THAT(text, Not(HasSubstr("launcher's own")));
  EXPECT_THAT(text, Not(HasSubstr("# HOME=")));
}

}  // namespace
}  // namespace flashbert
