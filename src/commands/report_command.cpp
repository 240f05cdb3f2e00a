#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>

#include "commands/command_line.h"
#include "commands/options.h"
#include "report/judge_report.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> paths;
  std::string ruleset = "5.0.0";
  std::int64_t global_batch = 0;
  bool json = false, plain = false, train_samples = false;
};

/// Logs of all paths once each, in the order given; sets likewise.
FoundLogs find_all(const std::vector<std::string>& paths) {
  FoundLogs all;
  const auto has = [](const auto& list, const auto& same) { return std::any_of(list.begin(), list.end(), same); };
  for (const std::string& path : paths) {
    FoundLogs found = find_logs(path);
    for (fs::path& file : found.files) {
      if (!has(all.files, [&](const fs::path& other) { return other == file; })) all.files.push_back(std::move(file));
    }
    for (RunSet& set : found.sets) {
      if (!has(all.sets, [&](const RunSet& other) { return other.dir == set.dir && other.files == set.files; })) {
        all.sets.push_back(std::move(set));
      }
    }
  }
  return all;
}

JudgedLogs judge_all(const FoundLogs& found, const JudgeOptions& options) {
  JudgedLogs judged;
  for (const fs::path& file : found.files) judged.runs.push_back(judge_run(file, options));
  std::map<fs::path, const JudgedRun*> by_file;
  for (const JudgedRun& run : judged.runs) by_file[run.file] = &run;
  for (const RunSet& set : found.sets) {
    std::vector<const JudgedRun*> runs;
    for (const fs::path& file : set.files) runs.push_back(by_file.at(file));
    judged.sets.push_back(score_set(set.dir, runs, options.ruleset));
  }
  return judged;
}

ExitCode report(const ReportArguments& arguments) {
  const JudgeOptions options{.ruleset = parse_ruleset("--ruleset", arguments.ruleset),
                             .samples_from = arguments.train_samples ? SamplesFrom::kTrainSamples : SamplesFrom::kEvaluation};
  check<ConfigError>(!arguments.paths.empty(), "flashbert report: name a log or a folder of logs; see flashbert report --help");
  const JudgedLogs judged = judge_all(find_all(arguments.paths), options);
  if (arguments.json) {
    fmt::print("{}\n", judged_json(judged, options.ruleset).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("{}", judged_text(judged, options.ruleset, arguments.plain ? CurveAs::kTable : CurveAs::kPicture));
  }
  const auto empty = std::find_if(judged.runs.begin(), judged.runs.end(), [](const JudgedRun& run) { return !run.has_records; });
  if (empty != judged.runs.end()) {
    spdlog::error("{} holds no MLPerf record; name a log that a run has written", empty->file.string());
    return ExitCode::kBadInput;
  }
  return all_good(judged) ? ExitCode::kGood : ExitCode::kBadVerdict;
}

void add_rules(CLI::App& command, const std::shared_ptr<ReportArguments>& arguments, Action& action) {
  CLI::App* const rules = command.add_subcommand("rules", "What a ruleset asks for: records, evaluation points, reference convergence");
  rules->footer("Example: flashbert report rules --global-batch 448 --ruleset 2.1.0");
  rules->add_option("--ruleset", arguments->ruleset, "ruleset of the round, 1.0.0 to 5.0.0")->default_str("5.0.0");
  add_count(*rules, "--global-batch", arguments->global_batch, 0, "samples an update; 0 = list all reference points");
  rules->add_flag("--json", arguments->json, "one JSON document on standard output");
  rules->callback([arguments, &action] {
    action = [arguments] {
      const Ruleset ruleset = parse_ruleset("--ruleset", arguments->ruleset);
      if (arguments->json) {
        fmt::print("{}\n", rules_json(ruleset, arguments->global_batch).dump());
      } else {
        fmt::print("{}", rules_text(ruleset, arguments->global_batch));
      }
      return ExitCode::kGood;
    };
  });
}

}  // namespace

void add_report_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ReportArguments>();
  CLI::App* const command = app.add_subcommand("report", "Judge MLPerf logs: compliance, convergence, score");
  command->footer("Example: flashbert report results/ten_runs --ruleset 5.0.0");
  command->add_option("logs", arguments->paths, "logs, or folders that hold result_*.txt or runs with mllog.txt");
  command->add_option("--ruleset", arguments->ruleset, "ruleset of the round, 1.0.0 to 5.0.0")->default_str(arguments->ruleset);
  command->add_flag("--json", arguments->json, "one JSON document on standard output");
  command->add_flag("--plain", arguments->plain, "numbers instead of the picture of a single log");
  command->add_flag("--train-samples", arguments->train_samples,
                    "take samples to converge from train_samples, not from the last evaluation");
  command->callback([arguments, &action, command] {
    if (!command->get_subcommands().empty()) return;
    action = [arguments] { return report(*arguments); };
  });
  add_rules(*command, arguments, action);
}

}  // namespace flashbert
