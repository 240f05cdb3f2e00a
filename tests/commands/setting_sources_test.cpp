#include "commands/setting_sources.h"

#include <gmock/gmock.h>

#include "commands/setting_keys.h"
#include "settings_fixture.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Settings : public testing::SettingsFixture {};

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

}  // namespace
}  // namespace flashbert
