#include "commands/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"

namespace flashbert {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t whole(const std::string& text) { return parse_integer("max-samples", text, 0, kNoLimit); }

/// The message of the ConfigError that the call throws; empty where it throws none.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Numbers, WholeNumbersAreReadInEveryForm) {
  EXPECT_EQ(whole("0"), 0);
  EXPECT_EQ(whole("2048"), 2048);
  EXPECT_EQ(whole("2_048"), 2048);
  EXPECT_EQ(whole("1_000_000"), 1'000'000);
  EXPECT_EQ(whole("3e6"), 3'000'000);
  EXPECT_EQ(whole("3E6"), 3'000'000);
  EXPECT_EQ(whole("1.5e3"), 1500);
  EXPECT_EQ(whole("3e+06"), 3'000'000);
  EXPECT_EQ(parse_integer("start-warmup-step", "-2", -10, 10), -2);
}

TEST(Numbers, TheLargestWholeNumberIsExact) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(parse_integer("seed", "9223372036854775807", 0, kLargest), kLargest);
  EXPECT_EQ(parse_integer("seed", "9007199254740993", 0, kLargest), 9007199254740993);  // 2^53 + 1: no double
}

TEST(Numbers, WhatIsNoWholeNumberIsRefusedWithOptionAndValue) {
  for (const std::string text : {"2.5", "3e", "12abc", "", " 3", "3 ", "99999999999999999999999", "1e30", "0x10", "1e-4", "inf", "nan",
                                 "2__048", "_1", "1_", "--5", "+-5", "true"}) {
    EXPECT_THAT(refusal([&] { whole(text); }), AllOf(HasSubstr("max-samples"), HasSubstr("'" + text + "'"))) << text;
  }
}

TEST(Numbers, ANegativeCountIsRefusedWithItsLimit) {
  EXPECT_THAT(refusal([] { whole("-5"); }), AllOf(HasSubstr("max-samples"), HasSubstr("'-5'"), HasSubstr("at least 0")));
  EXPECT_THAT(refusal([] { parse_integer("threads", "1025", 0, 1024); }), HasSubstr("0 to 1024"));
}

TEST(Numbers, RealsAreReadToTheNearestDouble) {
  EXPECT_EQ(parse_real("lr", "1e-4", 0, 1), 1e-4);
  EXPECT_EQ(parse_real("lr", "4.25e-4", 0, 1), 4.25e-4);
  EXPECT_EQ(parse_real("lr", "0.1", 0, 1), 0.1);
  EXPECT_EQ(parse_real("lr", "2_048", 0, 1e6), 2048.0);
  EXPECT_EQ(parse_real("lr", "+1", 0, 1), 1.0);
}

TEST(Numbers, WhatIsNoFiniteRealIsRefusedWithOptionAndValue) {
  for (const std::string text : {"", "3e", "1e-4x", "inf", "-inf", "nan", "1e999", "1,5", "+-1", "0.1 0.2", "-0.1", "1.1"}) {
    EXPECT_THAT(refusal([&] { parse_real("lr", text, 0.0, 1.0); }), AllOf(HasSubstr("lr"), HasSubstr("'" + text + "'"))) << text;
  }
}

TEST(Numbers, OnlyTrueAndFalseAreBooleans) {
  EXPECT_TRUE(parse_boolean("overwrite", "true"));
  EXPECT_FALSE(parse_boolean("overwrite", "false"));
  for (const std::string text : {"1", "yes", "True", "", "on"}) {
    EXPECT_THAT(refusal([&] { parse_boolean("overwrite", text); }), AllOf(HasSubstr("overwrite"), HasSubstr("'" + text + "'"))) << text;
  }
}

TEST(Numbers, SeedsStopWhereSignedIntegersStop) {
  EXPECT_EQ(parse_unsigned("seed", "9223372036854775807"), std::uint64_t{9223372036854775807U});
  EXPECT_THAT(refusal([] { parse_unsigned("seed", "9223372036854775808"); }), HasSubstr("seed"));
  EXPECT_THAT(refusal([] { parse_unsigned("seed", "-1"); }), HasSubstr("'-1'"));
}

TEST(Numbers, TextOfARealReadsBackToTheSameValue) {
  for (const double value : {0.1, 1.0, 1e-6, 4.25e-4, 1e300, 0.0, 1.0 / 3.0, 123456789.0}) {
    const std::string text = real_text(value);
    EXPECT_EQ(parse_real("x", text, 0.0, 1e301), value) << text;
    EXPECT_THAT(text, ::testing::ContainsRegex("[.e]"));
  }
}

TEST(Numbers, WhatAFileTypesIsNotReadAgain) {
  EXPECT_EQ(parse_integer("max-samples", OptionValue(3e6), 0, kNoLimit), 3'000'000);
  EXPECT_EQ(parse_integer("seed", OptionValue(std::int64_t{9007199254740993}), 0, kNoLimit), 9007199254740993);  // 2^53 + 1: no double
  EXPECT_EQ(parse_real("lr", OptionValue(0.1), 0, 1), 0.1);
  EXPECT_EQ(parse_real("lr", OptionValue(std::int64_t{1}), 0, 1), 1.0);
  EXPECT_TRUE(parse_boolean("overwrite", OptionValue(true)));
  EXPECT_EQ(parse_text("out", OptionValue(std::string("x"))), "x");
  const double infinite = std::numeric_limits<double>::infinity();
  for (const auto& [call, word] : std::initializer_list<std::pair<std::function<void()>, const char*>>{
           {[] { parse_integer("keep", OptionValue(2.5), 0, 9); }, "whole number"},
           {[] { parse_integer("keep", OptionValue(std::int64_t{10}), 0, 9); }, "0 to 9"},
           {[] { parse_integer("keep", OptionValue(1e300), 0, kNoLimit); }, "too large"},
           {[] { parse_integer("keep", OptionValue(true), 0, 9); }, "not a number"},
           {[=] { parse_real("keep", OptionValue(infinite), 0, 9); }, "not a number"},
           {[] { parse_boolean("keep", OptionValue(std::int64_t{1})); }, "true or false"},
           {[] { parse_text("keep", OptionValue(1.5)); }, "a text"}}) {
    EXPECT_THAT(refusal(call), AllOf(HasSubstr("keep"), HasSubstr(word)));
  }
}

TEST(Nearest, FindsTheWordMeant) {
  const std::vector<std::string> words = {"train", "eval", "data", "lr", "layers", "global-batch", "micro-batch"};
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("layer", words), "layers");
  EXPECT_EQ(nearest("global_batch", words), "global-batch");
  EXPECT_EQ(nearest("globl-bacth", words), "global-batch");
  EXPECT_EQ(nearest("lrr", words), "lr");
}

TEST(Nearest, IsSilentWhereNothingIsNear) {
  const std::vector<std::string> words = {"lr", "layers", "global-batch"};
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("completely-different", words), "");
  EXPECT_EQ(nearest("", words), "");
}

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
