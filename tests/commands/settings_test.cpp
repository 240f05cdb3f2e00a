#include "commands/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/error.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Settings : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("flashbert_settings_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  /// The message of the ConfigError that these sources cause.
  static std::string refusal(const SettingSources& sources) {
    try {
      static_cast<void>(resolve_settings(sources));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string file_refusal(const std::string& text) {
    return refusal({.command_line = {}, .config_file = write("bad.toml", text), .environment = {}});
  }

  fs::path folder_;
};

TEST_F(Settings, TheModelFileOfTheHighestSourceIsRead) {
  const auto model = [&](const std::string& name, int layers) {
    return write(name, R"({"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": )" + std::to_string(layers) + "}").string();
  };
  const std::string in_environment = model("environment.json", 3);
  const std::string in_file = model("file.json", 4);
  const std::string on_command_line = model("line.json", 5);
  const fs::path file = write("run.toml", "model = \"" + in_file + "\"\n");
  const std::map<std::string, std::string> environment = {{"FLASHBERT_MODEL", in_environment}};
  const auto layers = [&](const SettingSources& sources) { return resolve_settings(sources).values.model.layers; };
  EXPECT_EQ(layers({.command_line = {}, .config_file = file, .environment = {}}), 4);
  EXPECT_EQ(layers({.command_line = {}, .config_file = file, .environment = environment}), 3);
  EXPECT_EQ(layers({.command_line = {{"model", on_command_line}}, .config_file = file, .environment = environment}), 5);
}

TEST_F(Settings, WithoutSourcesEverythingIsTheDefault) {
  const ResolvedSettings resolved = resolve_settings({});
  EXPECT_EQ(resolved.values.global_batch, 448);
  EXPECT_EQ(resolved.values.model.layers, 24);
  EXPECT_EQ(resolved.values.optimizer.lr, 4.25e-4);
  for (const KeySpec& key : train_keys()) EXPECT_EQ(resolved.origins.at(key.name), "default") << key.name;
}

TEST_F(Settings, CommandLineBeatsEnvironmentBeatsFileBeatsDefault) {
  const fs::path file = write("run.toml", "micro_batch = 4\n");
  const fs::path without_key = write("empty.toml", "layers = 2\n");
  const std::map<std::string, std::string> environment = {{"FLASHBERT_MICRO_BATCH", "2"}};

  ResolvedSettings resolved = resolve_settings({.command_line = {{"micro-batch", "8"}}, .config_file = file, .environment = environment});
  EXPECT_EQ(resolved.values.micro_batch, 8);
  EXPECT_EQ(resolved.origins.at("micro-batch"),
            "command line, hides 2 from environment FLASHBERT_MICRO_BATCH, hides 4 from file " + file.string());

  resolved = resolve_settings({.command_line = {}, .config_file = file, .environment = environment});
  EXPECT_EQ(resolved.values.micro_batch, 2);
  EXPECT_EQ(resolved.origins.at("micro-batch"), "environment FLASHBERT_MICRO_BATCH, hides 4 from file " + file.string());

  resolved = resolve_settings({.command_line = {}, .config_file = file, .environment = {}});
  EXPECT_EQ(resolved.values.micro_batch, 4);
  EXPECT_EQ(resolved.origins.at("micro-batch"), "file " + file.string());

  resolved = resolve_settings({.command_line = {}, .config_file = without_key, .environment = environment});
  EXPECT_EQ(resolved.values.micro_batch, 2);
  EXPECT_EQ(resolved.origins.at("micro-batch"), "environment FLASHBERT_MICRO_BATCH");

  resolved = resolve_settings({.command_line = {{"micro-batch", "3"}, {"micro-batch", "8"}}, .config_file = {}, .environment = {}});
  EXPECT_EQ(resolved.values.micro_batch, 8);
  EXPECT_EQ(resolved.origins.at("micro-batch"), "command line");

  resolved = resolve_settings({.command_line = {}, .config_file = without_key, .environment = {}});
  EXPECT_EQ(resolved.values.micro_batch, 0);
  EXPECT_EQ(resolved.origins.at("micro-batch"), "default");
}

TEST_F(Settings, AVariableThatHidesTheFilesValueIsNoted) {
  const fs::path file = write("run.toml", "seed = 4\nlayers = 2\n");
  const auto notes =
      resolve_settings(
          {.command_line = {{"layers", "3"}}, .config_file = file, .environment = {{"FLASHBERT_SEED", "7"}, {"FLASHBERT_LAYERS", "2"}}})
          .notes;
  EXPECT_THAT(notes, ::testing::ElementsAre(AllOf(HasSubstr("seed is 7 from environment FLASHBERT_SEED"), HasSubstr("hides 4 from file"))));
}

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

TEST_F(Settings, TheStoredBlockAloneGivesTheSameSettings) {
  const ResolvedSettings first = resolve_settings({.command_line = unusual_values(), .config_file = {}, .environment = {}});
  const std::string text = settings_text(first, {}) + environment_text();
  const ResolvedSettings second = resolve_settings({.command_line = {}, .config_file = write("config.toml", text), .environment = {}});
  for (const KeySpec& key : train_keys()) {
    EXPECT_EQ(key.get(first.values), key.get(second.values)) << key.name;
    EXPECT_NE(key.get(first.values), key.get(TrainSettings{})) << key.name << " was not changed by its value";
  }
  EXPECT_EQ(first.values.optimizer.lr, 0.3141592653589793);
}

TEST_F(Settings, DefaultsReadBackToo) {
  const ResolvedSettings first = resolve_settings({});
  const ResolvedSettings second =
      resolve_settings({.command_line = {}, .config_file = write("config.toml", settings_text(first, {})), .environment = {}});
  for (const KeySpec& key : train_keys()) EXPECT_EQ(key.get(first.values), key.get(second.values)) << key.name;
}

TEST_F(Settings, TheStoredBlockTellsEveryOrigin) {
  const fs::path file = write("run.toml", "layers = 2\n");
  const std::string text = settings_text(
      resolve_settings({.command_line = {{"max-samples", "3e6"}}, .config_file = file, .environment = {{"FLASHBERT_SEED", "7"}}}), {});
  EXPECT_THAT(text, ::testing::ContainsRegex("max_samples = 3000000 +# command line\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("layers = 2 +# file .*run.toml\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("seed = 7 +# environment FLASHBERT_SEED\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("hidden = 1024 +# default\n"));
}

TEST_F(Settings, WhatTheRunDecidedStandsWithWhatWasAsked) {
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

TEST_F(Settings, TheEnvironmentThatMattersIsTold) {
  setenv("NCCL_FLASHBERT_TEST", "a\nb", 1);
  setenv("OMPI_MCA_orte_flashbert_test", "launcher's own", 1);
  const std::string text = environment_text();
  unsetenv("NCCL_FLASHBERT_TEST");
  unsetenv("OMPI_MCA_orte_flashbert_test");
  EXPECT_THAT(text, HasSubstr("# NCCL_FLASHBERT_TEST=a b\n"));  // a line break would end the comment
  EXPECT_THAT(text, Not(HasSubstr("launcher's own")));
  EXPECT_THAT(text, Not(HasSubstr("# HOME=")));
}

TEST_F(Settings, UnknownWordsAreRefusedWithTheNearestKey) {
  EXPECT_THAT(refusal({.command_line = {{"max-stps", "3"}}, .config_file = {}, .environment = {}}), HasSubstr("max-steps"));
  EXPECT_THAT(file_refusal("\nglobl_batch = 3\n"),
              AllOf(HasSubstr("bad.toml"), HasSubstr("line 2"), HasSubstr("globl_batch"), HasSubstr("global_batch")));
}

TEST_F(Settings, UnknownVariablesAreNotedWithTheNearestKey) {
  const ResolvedSettings resolved =
      resolve_settings({.command_line = {}, .config_file = {}, .environment = {{"FLASHBERT_GLOBAL_BACTH", "3"}}});
  EXPECT_THAT(resolved.notes, Contains(AllOf(HasSubstr("FLASHBERT_GLOBAL_BACTH"), HasSubstr("FLASHBERT_GLOBAL_BATCH"))));
  EXPECT_THAT(
      resolve_settings({.command_line = {}, .config_file = {}, .environment = {{"FLASHBERT_SHARED", "x"}, {"FLASHBERT_KEEP_OMP", "1"}}})
          .notes,
      IsEmpty());
}

TEST_F(Settings, WrongValuesAreRefusedWithKeyValueAndPlace) {
  EXPECT_THAT(refusal({.command_line = {{"max-samples", "2.5"}}, .config_file = {}, .environment = {}}),
              AllOf(HasSubstr("max-samples"), HasSubstr("2.5"), HasSubstr("command line")));
  EXPECT_THAT(refusal({.command_line = {}, .config_file = {}, .environment = {{"FLASHBERT_LAYERS", "many"}}}),
              AllOf(HasSubstr("layers"), HasSubstr("many"), HasSubstr("FLASHBERT_LAYERS")));
  EXPECT_THAT(file_refusal("\n\nmax_steps = -2\n"), AllOf(HasSubstr("max-steps"), HasSubstr("-2"), HasSubstr("line 3")));
  EXPECT_THAT(refusal({.command_line = {{"clip", "never"}}, .config_file = {}, .environment = {}}),
              AllOf(HasSubstr("never"), HasSubstr("after-reduce"), HasSubstr("before-reduce")));
  EXPECT_THAT(refusal({.command_line = {{"precision", "fp16"}}, .config_file = {}, .environment = {}}),
              AllOf(HasSubstr("bf16"), HasSubstr("f32")));
}

TEST_F(Settings, WrongTypesInTheFileAreRefusedWithTheirLine) {
  EXPECT_THAT(file_refusal("lr = \"0.1\"\n"), AllOf(HasSubstr("line 1"), HasSubstr("lr"), HasSubstr("number")));
  EXPECT_THAT(file_refusal("\nout = 3\n"), AllOf(HasSubstr("line 2"), HasSubstr("out"), HasSubstr("string")));
  EXPECT_THAT(file_refusal("eval_at_start = 1\n"), AllOf(HasSubstr("line 1"), HasSubstr("boolean")));
  EXPECT_THAT(file_refusal("layers = true\n"), AllOf(HasSubstr("line 1"), HasSubstr("number")));
  EXPECT_THAT(file_refusal("layers = [1, 2]\n"), HasSubstr("line 1"));
  EXPECT_THAT(file_refusal("layers = 2.5\n"), AllOf(HasSubstr("layers"), HasSubstr("2.5")));
  EXPECT_THAT(file_refusal("lr = inf\n"), HasSubstr("lr"));
}

TEST_F(Settings, WholeNumbersInTheFileMayBeWrittenAsReals) {
  const fs::path file = write("run.toml", "max_samples = 3e6\nlr = 1\nglobal_batch = 2_048\n");
  const ResolvedSettings resolved = resolve_settings({.command_line = {}, .config_file = file, .environment = {}});
  EXPECT_EQ(resolved.values.max_samples, 3'000'000);
  EXPECT_EQ(resolved.values.optimizer.lr, 1.0);
  EXPECT_EQ(resolved.values.global_batch, 2048);
}

TEST_F(Settings, BrokenFilesAreRefusedWithTheirLine) {
  EXPECT_THAT(file_refusal("layers = 2\nlayers = 3\n"), HasSubstr("line 2"));
  EXPECT_THAT(file_refusal("layers = 2\nhidden = \n"), HasSubstr("line 2"));
  EXPECT_THROW(static_cast<void>(resolve_settings({.command_line = {}, .config_file = folder_ / "none.toml", .environment = {}})),
               InputError);
}

TEST_F(Settings, ExplicitKeysOverrideTheModelFile) {
  const fs::path model =
      write("config.json", R"({"num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 2, "hidden_act": "gelu"})");
  const ResolvedSettings resolved =
      resolve_settings({.command_line = {{"model", model.string()}, {"layers", "5"}}, .config_file = {}, .environment = {}});
  EXPECT_EQ(resolved.values.model.layers, 5);
  EXPECT_EQ(resolved.values.model.hidden, 64);
  EXPECT_EQ(resolved.origins.at("layers"), "command line");
  EXPECT_THAT(resolved.origins.at("hidden"), HasSubstr("config.json"));
  EXPECT_THAT(resolved.notes, Contains(HasSubstr("tanh")));
}

TEST_F(Settings, NamesAreOneToOneInAllForms) {
  std::set<std::string> names;
  for (const KeySpec& key : train_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(key.name.find('_'), std::string::npos) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
  }
  EXPECT_EQ(toml_name("lr-total-steps"), "lr_total_steps");
  EXPECT_EQ(environment_name("lr-total-steps"), "FLASHBERT_LR_TOTAL_STEPS");
}

}  // namespace
}  // namespace flashbert
