#include "support/official_checker.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "report_support.h"

/// MLCommons' own checkers judge the logs; nothing of theirs is re-implemented here.
namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRulesets = "1.0.0,1.1.0,2.0.0,2.1.0,3.0.0,3.1.0,4.0.0,4.1.0,5.0.0";
constexpr std::size_t kRulesetCount = 9;

std::string arguments(const std::string& command, const std::string& rulesets, const std::vector<fs::path>& files) {
  std::string text = fmt::format("{} {}", command, rulesets);
  for (const fs::path& file : files) text += fmt::format(" {}", shell_word(file));
  return text;
}

/// A copy of the log without the lines of one key.
fs::path without_key(const fs::path& log, const std::string& key) {
  const fs::path copy = log.parent_path() / fmt::format("without_{}", key);
  const std::string mark = fmt::format("\"key\":\"{}\"", key);
  std::string text;
  for (const std::string& line : read_lines(log)) {
    if (line.find(mark) == std::string::npos) text += line + "\n";
  }
  write_text(copy, text);
  return copy;
}

TEST(OfficialChecker, AcceptsClosedAndOpenLogsUnderEveryRulesetWithoutWarning) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  const std::vector<fs::path> files = {folder.path() / "closed", folder.path() / "open"};
  write_run(files[0], bert_large_run("closed"));
  RunDescription open = bert_large_run("open");
  open.weight_names = {"bert/embeddings/word_embeddings"};
  write_run(files[1], open);
  const auto results = official_checks(python, arguments("compliance", kRulesets, files));
  ASSERT_EQ(results.size(), files.size() * kRulesetCount);
  for (const nlohmann::json& result : results) {
    EXPECT_EQ(result.at("verdict"), "success") << result;
    EXPECT_EQ(result.at("warnings"), 0) << result;
  }
}

TEST(OfficialChecker, CommandLineOfTheDocumentationSaysSuccess) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  write_run(folder.path() / "log", bert_large_run("closed"));
  const CommandResult result =
      run_command(fmt::format("cd {} && {} -m mlperf_logging.compliance_checker --usage training --ruleset 5.0.0 --werror log 2>&1",
                              shell_word(folder.path()), shell_word(python)));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("SUCCESS"), std::string::npos) << result.output;
}

TEST(OfficialChecker, ObjectsWhenAnyRequiredKeyIsDeleted) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  const fs::path log = folder.path() / "log";
  write_run(log, bert_large_run("closed"));
  // Keys and the rulesets that ask for them. What all rulesets ask for is tried with the newest; where they differ, each of the three
  // stands for its time.
  const std::set<std::string> all = {"2.0.0", "4.0.0", "5.0.0"};
  std::map<std::string, std::set<std::string>> required = {
      {"submission_org", {"2.0.0", "4.0.0"}},    {"submission_platform", {"2.0.0", "4.0.0"}},
      {"submission_status", {"2.0.0", "4.0.0"}}, {"opt_epsilon", {"2.0.0"}},
      {"opt_lamb_epsilon", {"4.0.0", "5.0.0"}},  {"weights_initialization", {"2.0.0"}}};
  for (const char* const key : {"submission_benchmark",
                                "submission_division",
                                "cache_clear",
                                "init_start",
                                "init_stop",
                                "run_start",
                                "run_stop",
                                "eval_accuracy",
                                "train_samples",
                                "eval_samples",
                                "gradient_accumulation_steps",
                                "global_batch_size",
                                "opt_base_learning_rate",
                                "opt_learning_rate_training_steps",
                                "opt_learning_rate_warmup_steps",
                                "num_warmup_steps",
                                "start_warmup_step",
                                "opt_lamb_beta_1",
                                "opt_lamb_beta_2",
                                "opt_lamb_weight_decay_rate"})
    required[key] = all;
  std::vector<fs::path> same;
  std::vector<fs::path> different;
  for (const auto& [key, rulesets] : required) (rulesets == all ? same : different).push_back(without_key(log, key));
  auto results = official_checks(python, arguments("compliance", "5.0.0", same));
  const auto by_ruleset = official_checks(python, arguments("compliance", "2.0.0,4.0.0,5.0.0", different));
  results.insert(results.end(), by_ruleset.begin(), by_ruleset.end());
  ASSERT_EQ(results.size(), same.size() + different.size() * all.size());
  for (const nlohmann::json& result : results) {
    const std::string key = fs::path(result.at("file").get<std::string>()).filename().string().substr(std::string("without_").size());
    const bool asked_for = required.at(key).count(result.at("ruleset").get<std::string>()) > 0;
    EXPECT_EQ(result.at("verdict") != "success", asked_for) << key << " " << result.at("ruleset");
  }
}

TEST(OfficialChecker, ConvergenceReaderSeesSamplesAndOutcome) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  const std::vector<fs::path> files = {folder.path() / "success", folder.path() / "aborted"};
  write_run(files[0], bert_large_run("closed"));
  write_run(files[1], bert_large_run("closed"), MlperfRun::Outcome::kAborted);
  const auto results = official_checks(python, arguments("convergence", "5.0.0", files));
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].at("converged"), true);
  EXPECT_EQ(results[0].at("samples"), 300'160);
  EXPECT_EQ(results[0].at("train_samples"), 300'160);
  EXPECT_EQ(results[0].at("global_batch"), 448);
  EXPECT_EQ(results[1].at("converged"), false);
}

TEST(OfficialChecker, SeedsOfASetMustDiffer) {
  FLASHBERT_CHECKER_OR_SKIP(python);
  const TemporaryFolder folder;
  std::vector<fs::path> files;
  for (std::uint64_t run = 0; run < 10; ++run) {
    files.push_back(folder.path() / fmt::format("result_{}.txt", run));
    RunDescription description = bert_large_run("closed");
    description.seed = 0xffff'ffff'0000'0000U + run;
    write_run(files.back(), description);
  }
  EXPECT_EQ(official_checks(python, arguments("seeds", "5.0.0", files)).at(0).at("verdict"), "success");
  fs::copy_file(files[3], files[9], fs::copy_options::overwrite_existing);
  EXPECT_EQ(official_checks(python, arguments("seeds", "5.0.0", files)).at(0).at("verdict"), "failed");
}

}  // namespace
}  // namespace flashbert::testing
