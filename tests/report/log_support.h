#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/log_judge.h"
#include "report_support.h"

namespace flashbert::testing {

/// A compliant closed log that a test takes apart.
class EditedLog {
 public:
  explicit EditedLog(const std::string& division = "closed") {
    const TemporaryFolder folder;
    write_run(folder.path() / "log", bert_large_run(division));
    records_ = read_records(folder.path() / "log");
    at("run_stop")["time_ms"] = at("run_start")["time_ms"].get<std::int64_t>() + 60'000;
  }
  std::vector<nlohmann::json>& records() { return records_; }
  nlohmann::json& at(std::string_view key, std::size_t nth = 0) { return records_.at(places_of(records_, key).at(nth)); }
  void erase(std::string_view key) {
    std::erase_if(records_, [&](const nlohmann::json& record) { return record.at("key") == key; });
  }
  void repeat(std::string_view key) { records_.push_back(at(key)); }
  /// Takes the record out and puts it behind the other one.
  void move_behind(std::string_view key, std::string_view other) {
    const nlohmann::json record = at(key);
    records_.erase(records_.begin() + static_cast<std::ptrdiff_t>(places_of(records_, key).at(0)));
    records_.insert(records_.begin() + static_cast<std::ptrdiff_t>(places_of(records_, other).at(0)) + 1, record);
  }
  /// Line ends and what stands before a record's mark may be any.
  [[nodiscard]] std::string text(const std::string& before = "", const std::string& end = "\n") const {
    std::string all;
    for (const nlohmann::json& record : records_) all += before + ":::MLLOG " + record.dump() + end;
    return all;
  }

 private:
  std::vector<nlohmann::json> records_;
};

inline MlperfLog read_log_text(std::string_view text) {
  const TemporaryFolder folder;
  write_text(folder.path() / "log", text);
  return read_mlperf_log(folder.path() / "log", is_judged_key);
}

inline LogVerdict judge_text(std::string_view text, std::string_view ruleset = "5.0.0") {
  return judge_log(read_log_text(text), parse_ruleset("ruleset", ruleset));
}

/// Rules of the findings, sorted.
inline std::vector<std::string> rules_of_findings(const std::vector<LogFinding>& findings) {
  std::vector<std::string> rules;
  for (const LogFinding& finding : findings) rules.push_back(finding.rule);
  std::sort(rules.begin(), rules.end());
  return rules;
}

inline nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(std::ifstream(path)); }

}  // namespace flashbert::testing
