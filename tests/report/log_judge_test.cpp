#include "report/log_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "core/error.h"
#include "log_support.h"
#include "support/official_checker.h"

namespace flashbert::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// One change of a good log, and the rulesets in which the official checker fails it (first to last); "" = none. The verdicts were
/// taken from the checker, and LogJudge.AgreesWithTheOfficialChecker compares them with it wherever it is at hand.
struct Change {
  const char* name;
  std::function<void(EditedLog&)> apply;
  const char *first, *last;
  const char* rule;
};

std::vector<Change> changes() {
  using nlohmann::json;
  const char *const kFirst = "1.0.0", *const kLast = "5.0.0";
  return {
      {"none", [](EditedLog&) {}, "", "", ""},
      {"no org", [](EditedLog& log) { log.erase("submission_org"); }, kFirst, "4.1.0", "submission_org"},
      {"no status", [](EditedLog& log) { log.erase("submission_status"); }, kFirst, "4.0.0", "submission_status"},
      {"wrong status", [](EditedLog& log) { log.at("submission_status")["value"] = "shelf"; }, kFirst, "4.0.0", "submission_status"},
      {"no division", [](EditedLog& log) { log.erase("submission_division"); }, kFirst, kLast, "submission_division"},
      {"wrong division", [](EditedLog& log) { log.at("submission_division")["value"] = "ajar"; }, kFirst, kLast, "submission_division"},
      {"late division", [](EditedLog& log) { log.move_behind("submission_division", "init_stop"); }, "2.0.0", kLast, "init_stop"},
      {"late org", [](EditedLog& log) { log.move_behind("submission_org", "run_stop"); }, "", "", ""},
      {"unknown benchmark", [](EditedLog& log) { log.at("submission_benchmark")["value"] = "bertha"; }, kFirst, kLast,
       "submission_benchmark"},
      {"no old epsilon", [](EditedLog& log) { log.erase("opt_epsilon"); }, kFirst, "2.0.0", "opt_epsilon"},
      {"no new epsilon", [](EditedLog& log) { log.erase("opt_lamb_epsilon"); }, "2.1.0", kLast, "opt_lamb_epsilon"},
      {"a tensor twice", [](EditedLog& log) { log.repeat("weights_initialization"); }, "1.1.0", "2.1.0", "weights_initialization"},
      {"no tensors", [](EditedLog& log) { log.erase("weights_initialization"); }, "1.1.0", "2.1.0", "weights_initialization"},
      {"batch twice, alike", [](EditedLog& log) { log.repeat("global_batch_size"); }, "", "", ""},
      {"batch twice, 448.0",
       [](EditedLog& log) {
         log.repeat("global_batch_size");
         log.records().back()["value"] = 448.0;
       },
       "", "", ""},
      {"batch twice, other",
       [](EditedLog& log) {
         log.repeat("global_batch_size");
         log.records().back()["value"] = 512;
       },
       kFirst, kLast, "global_batch_size"},
      {"accumulation 0", [](EditedLog& log) { log.at("gradient_accumulation_steps")["value"] = 0; }, kFirst, kLast,
       "gradient_accumulation_steps"},
      {"accumulation text", [](EditedLog& log) { log.at("gradient_accumulation_steps")["value"] = "1"; }, kFirst, kLast,
       "gradient_accumulation_steps"},
      {"init_stop late by the limit",
       [](EditedLog& log) { log.at("init_stop")["time_ms"] = log.at("init_start")["time_ms"].get<std::int64_t>() + 1'800'000; }, kFirst,
       kLast, "init_stop"},
      {"init_stop a millisecond before the limit",
       [](EditedLog& log) { log.at("init_stop")["time_ms"] = log.at("init_start")["time_ms"].get<std::int64_t>() + 1'799'999; }, "", "",
       ""},
      {"init_start after init_stop", [](EditedLog& log) { log.move_behind("init_start", "init_stop"); }, kFirst, kLast, "init_start"},
      {"run_start before init_stop", [](EditedLog& log) { log.move_behind("init_stop", "run_start"); }, kFirst, kLast, "run_start"},
      {"no run_stop", [](EditedLog& log) { log.erase("run_stop"); }, kFirst, kLast, "run_stop"},
      {"run_stop without status", [](EditedLog& log) { log.at("run_stop")["metadata"].erase("status"); }, kFirst, kLast, "run_stop"},
      {"metadata null", [](EditedLog& log) { log.at("opt_lamb_beta_1")["metadata"] = nullptr; }, "", "", ""},
      {"metadata null where it is read", [](EditedLog& log) { log.at("epoch_stop")["metadata"] = nullptr; }, kFirst, kLast, "epoch_stop"},
      {"epoch by samples", [](EditedLog& log) { log.at("epoch_stop")["metadata"].erase("epoch_num"); }, kFirst, "4.1.0", "epoch_stop"},
      {"evaluation by samples", [](EditedLog& log) { log.at("eval_start")["metadata"].erase("epoch_num"); }, kFirst, "3.0.0", "eval_start"},
      {"accuracy by samples", [](EditedLog& log) { log.at("eval_accuracy")["metadata"].erase("epoch_num"); }, kFirst, kLast,
       "eval_accuracy"},
      {"no epochs", [](EditedLog& log) { log.erase("epoch_start"); }, "", "", ""},
      {"neither blocks nor epochs",
       [](EditedLog& log) {
         log.erase("epoch_start");
         log.erase("block_start");
       },
       kFirst, kLast, "block_start"},
      {"no evaluation pairs", [](EditedLog& log) { log.erase("eval_start"); }, "", "", ""},
      {"epoch_count 0", [](EditedLog& log) { log.at("block_start")["metadata"]["epoch_count"] = 0; }, kFirst, kLast, "block_start"},
      {"block by samples only",
       [](EditedLog& log) {
         log.at("block_start")["metadata"] = {{"samples_count", 0}};
         log.at("block_stop")["metadata"] = {{"samples_count", 0}};
       },
       kFirst, "3.1.0", "block_start"},
      {"target missed", [](EditedLog& log) { log.at("eval_accuracy", 1)["value"] = 0.7199; }, kFirst, kLast, "eval_accuracy"},
      {"accuracy 1", [](EditedLog& log) { log.at("eval_accuracy", 1)["value"] = 1.0; }, kFirst, kLast, "eval_accuracy"},
      {"accuracy text", [](EditedLog& log) { log.at("eval_accuracy", 0)["value"] = "0.5"; }, kFirst, kLast, "eval_accuracy"},
      {"aborted", [](EditedLog& log) { log.at("run_stop")["metadata"]["status"] = "aborted"; }, "", "", ""},
      {"value missing", [](EditedLog& log) { log.at("opt_name").erase("value"); }, kFirst, kLast, "record"},
  };
}

bool fails_in(const Change& change, Ruleset ruleset) {
  return *change.first != '\0' && RulesetSpan{change.first, change.last}.holds(ruleset);
}

TEST(LogJudge, EachChangeFailsInItsRulesetsAndNamesTheRule) {
  for (const Change& change : changes()) {
    EditedLog log;
    change.apply(log);
    for (const std::string_view name : ruleset_names()) {
      const LogVerdict verdict = judge_text(log.text(), name);
      EXPECT_EQ(!verdict.compliant, fails_in(change, parse_ruleset("", name))) << change.name << " " << name;
      EXPECT_EQ(verdict.compliant, verdict.failures.empty());
      if (verdict.compliant) continue;
      EXPECT_THAT(rules_of_findings(verdict.failures), Contains(change.rule)) << change.name << " " << name;
    }
  }
}

TEST(LogJudge, AgreesWithTheOfficialChecker) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  std::string words = "compliance 1.0.0,1.1.0,2.0.0,2.1.0,3.0.0,3.1.0,4.0.0,4.1.0,5.0.0";
  const std::vector<Change> all = changes();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EditedLog log;
    all[i].apply(log);
    const auto path = folder.path() / std::to_string(i);
    write_text(path, log.text());
    words += " " + shell_word(path);
  }
  const auto results = official_checks(python, words);
  ASSERT_EQ(results.size(), all.size() * ruleset_names().size());
  for (const nlohmann::json& result : results) {
    const Change& change = all[std::stoul(std::filesystem::path(result.at("file").get<std::string>()).filename().string())];
    const Ruleset ruleset = parse_ruleset("", result.at("ruleset").get<std::string>());
    EXPECT_EQ(result.at("verdict") != "success", fails_in(change, ruleset)) << change.name << " " << result;
  }
}

TEST(LogJudge, OpenLogsNeedNoHyperparametersAndAnyAccuracyBelowOne) {
  EditedLog log("open");
  for (const KeyRule& rule : key_rules()) {
    if (rule.division == Division::kClosed) log.erase(rule.key);
  }
  for (std::size_t i = 0; i < 2; ++i) log.at("eval_accuracy", i)["value"] = 0.1;
  log.at("init_stop")["time_ms"] = log.at("init_start")["time_ms"].get<std::int64_t>() + 3'600'000;
  for (const std::string_view name : ruleset_names()) {
    EXPECT_EQ(judge_text(log.text(), name).compliant, RulesetSpan({"2.0.0", "5.0.0"}).holds(parse_ruleset("", name))) << name;
  }
}

TEST(LogJudge, FailuresTellLineAndWhatToDo) {
  EditedLog log;
  log.at("opt_name").erase("time_ms");
  const LogVerdict verdict = judge_text("plain line\n" + log.text());
  ASSERT_EQ(verdict.failures.size(), 1U);
  EXPECT_EQ(verdict.failures[0].rule, "record");
  EXPECT_EQ(verdict.failures[0].line, static_cast<std::int64_t>(places_of(log.records(), "opt_name")[0]) + 2);
  EXPECT_THAT(verdict.failures[0].message, HasSubstr("time_ms"));
}

TEST(LogJudge, AFaultOnManyLinesIsToldOnce) {
  EditedLog log;
  for (std::size_t i = 0; i < 2; ++i) log.at("eval_accuracy", i)["metadata"].erase("epoch_num");
  const LogVerdict verdict = judge_text(log.text());
  ASSERT_EQ(verdict.failures.size(), 1U);
  EXPECT_THAT(verdict.failures[0].message, HasSubstr("[and 1 more]"));
}

TEST(LogJudge, LogsOfOtherBenchmarksAreRecognised) {
  EditedLog log;
  log.at("submission_benchmark")["value"] = "resnet";
  const LogVerdict verdict = judge_text(log.text(), "2.1.0");
  EXPECT_FALSE(verdict.compliant);
  ASSERT_EQ(verdict.failures.size(), 1U);
  EXPECT_THAT(verdict.failures[0].message, HasSubstr("resnet"));
}

TEST(LogJudge, WithoutRecordsThereIsOneFailure) {
  EXPECT_EQ(rules_of_findings(judge_text("").failures), std::vector<std::string>{"log"});
  EXPECT_EQ(rules_of_findings(judge_text("some other file\n").failures), std::vector<std::string>{"log"});
}

TEST(LogJudge, TrapsAreNamedBesideTheVerdict) {
  struct Trap {
    const char* rule;
    std::function<void(EditedLog&)> apply;
  };
  for (const Trap& trap :
       {Trap{"run_start", [](EditedLog& log) { log.repeat("run_start"); }},
        Trap{"eval_accuracy", [](EditedLog& log) { log.move_behind("eval_accuracy", "run_stop"); }},
        Trap{"run_stop", [](EditedLog& log) { log.at("run_stop")["metadata"]["status"] = "aborted"; }},
        Trap{"seed", [](EditedLog& log) { log.erase("seed"); }}, Trap{"seed", [](EditedLog& log) { log.at("seed")["value"] = 0.5; }},
        Trap{"seed", [](EditedLog& log) { log.at("seed")["metadata"].erase("lineno"); }},
        Trap{"eval_samples", [](EditedLog& log) { log.at("eval_samples")["value"] = 9999; }},
        Trap{"convergence", [](EditedLog& log) { log.at("opt_name")["metadata"]["file"] = "global_batch_size.cc"; }},
        Trap{"eval_accuracy", [](EditedLog& log) { log.at("eval_accuracy", 1)["metadata"]["epoch_num"] = 400'000; }}}) {
    EditedLog log;
    trap.apply(log);
    const LogVerdict verdict = judge_text(log.text());
    EXPECT_TRUE(verdict.compliant) << trap.rule;
    EXPECT_THAT(rules_of_findings(verdict.warnings), Contains(trap.rule));
  }
  EXPECT_TRUE(judge_text(EditedLog().text()).warnings.empty());
}

TEST(LogJudge, UnknownRulesetsAreRefusedWithThoseThereAre) {
  EXPECT_THROW(static_cast<void>(parse_ruleset("--ruleset", "5.1.0")), ConfigError);
  EXPECT_EQ(reference_tensor_names().size(), 398U);
}

}  // namespace
}  // namespace flashbert::testing
