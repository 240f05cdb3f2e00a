#include "commands/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/error.h"

namespace flashbert {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Arguments : public ::testing::Test {
 protected:
  Arguments() {
    CLI::App* const command = app_.add_subcommand("train");
    command->add_option("--out", out_);
    command->add_option("--start", start_);
    command->add_flag("--dry-run", dry_run_);
    command->add_option("--save", save_)->expected(0, 1);
  }
  [[nodiscard]] std::string refusal(const std::vector<std::string>& arguments) const {
    try {
      static_cast<void>(plain_arguments(app_, arguments));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_;
  std::string out_, start_, save_;
  bool dry_run_ = false;
};

TEST_F(Arguments, EveryFormOfABooleanBecomesOne) {
  EXPECT_THAT(plain_arguments(app_, {"train", "--dry-run"}), ElementsAre("train", "--dry-run=true"));
  EXPECT_THAT(plain_arguments(app_, {"train", "--dry-run", "true"}), ElementsAre("train", "--dry-run=true"));
  EXPECT_THAT(plain_arguments(app_, {"train", "--save", "false", "--dry-run=false"}),
              ElementsAre("train", "--save=false", "--dry-run=false"));
  EXPECT_THAT(plain_arguments(app_, {"train", "--save", "file"}), ElementsAre("train", "--save=true", "file"));
}

TEST_F(Arguments, ValuesStayAsTheyAre) {
  EXPECT_THAT(plain_arguments(app_, {"train", "--out", "true", "--start", "-2", "--out=--x"}),
              ElementsAre("train", "--out", "true", "--start", "-2", "--out=--x"));
}

TEST_F(Arguments, AMissingValueIsRefused) {
  EXPECT_THAT(refusal({"train", "--out="}), AllOf(HasSubstr("--out="), HasSubstr("empty")));
  EXPECT_THAT(refusal({"train", "--out", ""}), AllOf(HasSubstr("--out"), HasSubstr("empty")));
  EXPECT_THAT(refusal({"train", "--out", "--dry-run"}), AllOf(HasSubstr("--out"), HasSubstr("--dry-run")));
}

TEST_F(Arguments, HelpTakesNoValue) { EXPECT_THAT(plain_arguments(app_, {"train", "--help"}), ElementsAre("train", "--help")); }

}  // namespace
}  // namespace flashbert
