#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace flashbert {
namespace {

namespace fs = std::filesystem;

struct ReportOutcome {
  int exit_code = -1;
  std::string out;
};

ReportOutcome run_report(const std::string& words) {
  const std::string line = std::string(FLASHBERT_PROGRAM) + " report " + words + " 2>/dev/null";
  ReportOutcome outcome;
  FILE* const pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) outcome.out += buffer.data();
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// The least that ruleset 5.0.0 asks of an open log.
std::string open_log(double accuracy) {
  std::string text;
  const auto add = [&](const std::string& key, const std::string& value, const std::string& metadata) {
    text += ":::MLLOG {\"time_ms\": 1000, \"key\": \"" + key + "\", \"value\": " + value + ", \"metadata\": {" + metadata + "}}\n";
  };
  for (const auto& [key, value] : {std::pair{"submission_benchmark", "\"bert\""},
                                   {"submission_division", "\"open\""},
                                   {"cache_clear", "true"},
                                   {"init_start", "null"},
                                   {"init_stop", "null"},
                                   {"run_start", "null"}}) {
    add(key, value, "");
  }
  add("block_start", "null", R"("samples_count": 0)");
  add("eval_accuracy", std::to_string(accuracy), R"("epoch_num": 448)");
  add("block_stop", "null", R"("samples_count": 448)");
  add("train_samples", "448", "");
  add("eval_samples", "10000", "");
  add("run_stop", "null", R"("status": "success")");
  return text;
}

class Report : public ::testing::Test {
 protected:
  Report() { fs::create_directories(folder_); }
  ~Report() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  fs::path folder_ = fs::temp_directory_path() / ("flashbert_judge_" + std::to_string(getpid()));
};

TEST_F(Report, ExitCodesTellTheVerdict) {
  EXPECT_EQ(run_report(write("good.txt", open_log(0.73))).exit_code, 0);
  EXPECT_EQ(run_report(write("bad.txt", open_log(1.5))).exit_code, 1);
  EXPECT_EQ(run_report(write("empty.txt", "")).exit_code, 3);
  EXPECT_EQ(run_report(write("other.txt", "no log\n")).exit_code, 3);
  EXPECT_EQ(run_report((folder_ / "absent").string()).exit_code, 3);
  EXPECT_EQ(run_report("").exit_code, 2);
  EXPECT_EQ(run_report((folder_ / "good.txt").string() + " --ruleset 5.1.0").exit_code, 2);
}

TEST_F(Report, JsonIsOneDocumentOnOneLine) {
  for (int run = 0; run < 10; ++run) write("set/run" + std::to_string(run) + "/mllog.txt", open_log(0.73));
  const ReportOutcome outcome = run_report((folder_ / "set").string() + " --json --ruleset=5.0.0");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("logs").size(), 10U);
  ASSERT_EQ(json.at("sets").size(), 1U);
  EXPECT_EQ(json.at("sets")[0].at("runs"), 10);
  EXPECT_TRUE(json.at("sets")[0].at("rcp").at("verdict").is_null());
  EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1);
}

TEST_F(Report, RulesTellSchedulePointsAndRecords) {
  const ReportOutcome outcome = run_report("rules --global-batch 448 --ruleset 2.1.0 --json");
  EXPECT_EQ(outcome.exit_code, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("evaluation").at("interval_samples"), 150'000);
  EXPECT_EQ(json.at("evaluation").at("steps")[0], 335);
  EXPECT_NEAR(json.at("rcp").at("min_mean").get<double>(), 2'274'732, 1);
  EXPECT_NE(run_report("rules").out.find("opt_lamb_epsilon"), std::string::npos);
}

TEST_F(Report, HelpHasAnExample) {
  for (const char* const words : {"--help", "rules --help"}) {
    const ReportOutcome outcome = run_report(words);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.out.find("Example"), std::string::npos);
  }
}

}  // namespace
}  // namespace flashbert
