#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/error.h"

namespace flashbert {

/// What a command is run with after its options were read.
struct CommandContext {
  Communicator& communicator;
};

/// Every command registers a subcommand and sets `action` when it was chosen; main runs it.
using Action = std::function<ExitCode(CommandContext&)>;

void add_train_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_checkpoint_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_report_command(CLI::App& app, Action& action);

/// A whole-number option of at least `low`, read by the rules of numbers.h; its default is the value it has now.
void add_count(CLI::App& command, const std::string& name, std::int64_t& value, std::int64_t low, const std::string& help);

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
ExitCode run_command_line(int argc, char** argv, Communicator& communicator);

}  // namespace flashbert
