#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/peers.h"
#include "core/error.h"

namespace flashbert {

/// Every command registers a subcommand and sets `action` when it was chosen; run_command_line runs it. Commands that have no use for ranks
/// run on the root alone and get no peers; the others get some that outlive the action.
using Action = std::function<ExitCode()>;

void add_train_command(CLI::App& app, Peers peers, Action& action);
void add_eval_command(CLI::App& app, Peers peers, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_checkpoint_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);

/// Options of all train keys on a subcommand, collected as text in the order given: --key value, --key=value, and bare flags for
/// booleans.
class KeyOptions {
 public:
  void add_to(CLI::App& command);
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }
  std::filesystem::path config_file;

 private:
  std::vector<std::pair<std::string, std::string>> given_;
};

/// Runs the program: parses, sets up logging, runs the chosen command; maps unknown words to ConfigErrors that name the nearest known one.
ExitCode run_command_line(int argc, char** argv, Peers peers);

}  // namespace flashbert
