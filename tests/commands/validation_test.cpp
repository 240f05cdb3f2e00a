#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "commands/setting_sources.h"
#include "core/error.h"
#include "train/batch_split.h"
#include "train/settings_check.h"

namespace flashbert {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TrainSettings runnable() {
  TrainSettings settings;
  settings.train_data = "train";
  settings.max_steps = 10;
  return settings;
}

std::string refusal(const TrainSettings& settings, int ranks = 1) {
  try {
    validate(settings, ranks);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::function<void(TrainSettings&)>& change) {
  TrainSettings settings = runnable();
  change(settings);
  return refusal(settings);
}

/// What the key tables refuses before validation sees it.
std::string key_refusal(const std::string& key, const std::string& value) {
  try {
    static_cast<void>(resolve_settings({.command_line = {{key, value}}, .config_file = {}, .environment = {}}));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(BatchArithmetic, AnyTwoGiveTheThird) {
  TrainSettings settings = runnable();
  settings.global_batch = 448;
  settings.micro_batch = 8;
  EXPECT_EQ(split_batch(settings, 2).accumulation, 28);
  settings.micro_batch = 0;
  settings.accum = 28;
  EXPECT_EQ(split_batch(settings, 2).micro_batch, 8);
}

TEST(BatchArithmetic, AContradictionShowsTheWholeSum) {
  TrainSettings settings = runnable();
  settings.global_batch = 448;
  settings.micro_batch = 8;
  settings.accum = 4;
  EXPECT_THAT(refusal(settings, 2), AllOf(HasSubstr("micro-batch 8"), HasSubstr("accum 4"), HasSubstr("2 ranks"), HasSubstr("MPI"),
                                          HasSubstr("= 64"), HasSubstr("448")));
}

TEST(BatchArithmetic, ABatchThatDoesNotFitIsRefusedWithTheTwoNearest) {
  TrainSettings settings = runnable();
  settings.global_batch = 450;
  settings.micro_batch = 8;
  EXPECT_THAT(refusal(settings, 2), AllOf(HasSubstr("450"), HasSubstr("448"), HasSubstr("464")));
  settings.micro_batch = 0;
  EXPECT_THAT(refusal(settings, 4), AllOf(HasSubstr("450"), HasSubstr("448"), HasSubstr("452")));
}

TEST(Validation, AcceptsAPlainRun) { EXPECT_EQ(refusal(runnable()), ""); }

TEST(Validation, TheScheduleMustMakeSense) {
  EXPECT_THAT(refusal([](TrainSettings& s) { s.optimizer.lr_total_steps = 0; }), HasSubstr("lr-total-steps"));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.optimizer.warmup_steps = -1; }), HasSubstr("warmup-steps"));
  EXPECT_THAT(refusal([](TrainSettings& s) {
                s.optimizer.lr_total_steps = 10;
                s.optimizer.warmup_steps = 11;
              }),
              AllOf(HasSubstr("warmup-steps 11"), HasSubstr("lr-total-steps 10")));
  EXPECT_THAT(key_refusal("lr-total-steps", "0"), HasSubstr("lr-total-steps"));
  EXPECT_THAT(key_refusal("warmup-steps", "-1"), HasSubstr("warmup-steps"));
  EXPECT_EQ(key_refusal("start-warmup-step", "-2"), "");
}

TEST(Validation, AWarmUpMayNotStartWithNegativeRates) {
  TrainSettings settings = runnable();
  settings.optimizer.warmup_steps = 4;
  settings.optimizer.start_warmup_step = 1;
  EXPECT_THAT(refusal(settings), HasSubstr("start-warmup-step is 1"));
  settings.optimizer.start_warmup_step = -2;
  EXPECT_EQ(refusal(settings), "");
}

TEST(Validation, TextsThatWouldSpoilTheLogAreRefused) {
  TrainSettings settings = runnable();
  settings.submission.platform = "box:::MLLOG";
  EXPECT_THAT(refusal(settings), HasSubstr("submission-platform"));
}

TEST(Validation, SomethingMustEndTheRun) {
  EXPECT_THAT(refusal([](TrainSettings& s) { s.max_steps = 0; }),
              AllOf(HasSubstr("eval-data"), HasSubstr("max-steps"), HasSubstr("max-samples")));
  EXPECT_EQ(refusal([](TrainSettings& s) {
              s.max_steps = 0;
              s.eval_data = "eval";
            }),
            "");
}

TEST(Validation, WhatThisVersionCannotDoIsRefused) {
  EXPECT_THAT(refusal([](TrainSettings& s) { s.resume = "auto"; }), AllOf(HasSubstr("resume"), HasSubstr("auto")));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.tensorboard = true; }), HasSubstr("tensorboard"));
}

TEST(Validation, TheClosedDivisionNeedsItsNames) {
  const auto closed = [](TrainSettings& s) {
    s.submission = {.org = "org", .division = "closed", .status = "onprem", .platform = "machine"};
  };
  EXPECT_EQ(refusal(closed), "");
  EXPECT_THAT(refusal([&](TrainSettings& s) {
                closed(s);
                s.submission.org.clear();
              }),
              HasSubstr("submission-org"));
  EXPECT_THAT(refusal([&](TrainSettings& s) {
                closed(s);
                s.submission.platform.clear();
              }),
              HasSubstr("submission-platform"));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.submission.status = "home"; }),
              AllOf(HasSubstr("home"), HasSubstr("onprem"), HasSubstr("research")));
  EXPECT_THAT(refusal([](TrainSettings& s) { s.submission.division = "ajar"; }),
              AllOf(HasSubstr("ajar"), HasSubstr("open"), HasSubstr("closed")));
}

TEST(Validation, TheModelMustFitTogether) {
  EXPECT_THAT(refusal([](TrainSettings& s) { s.model.heads = 7; }), AllOf(HasSubstr("hidden"), HasSubstr("heads 7")));
}

}  // namespace
}  // namespace flashbert
