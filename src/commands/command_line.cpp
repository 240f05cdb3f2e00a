#include "commands/command_line.h"

#include <algorithm>

#include "commands/options.h"
#include "commands/setting_keys.h"
#include "commands/version_text.h"
#include "core/log.h"

namespace flashbert {
namespace {

/// The deepest subcommand that was chosen.
const CLI::App* chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

void allow_extras_everywhere(CLI::App& app) {
  app.allow_extras();
  for (CLI::App* command : app.get_subcommands(nullptr)) allow_extras_everywhere(*command);
}

void add_log_level(CLI::App& app, std::string& level) {
  for (CLI::App* command : app.get_subcommands(nullptr)) {
    add_log_level(*command, level);
    command->add_option("--log-level", level, "trace, debug, info, warn, error or off");
  }
}

}  // namespace

void KeyOptions::add_to(CLI::App& command) {
  command.add_option("--config", config_file, "TOML file with keys (names with _ for -); FLASHBERT_ variables and options override it");
  const auto note = [this](const std::string& key) { return [this, key](const std::string& value) { given_.emplace_back(key, value); }; };
  for (const KeySpec& key : train_keys()) {
    CLI::Option* const option = command.add_option_function<std::string>("--" + key.name, note(key.name), key.help);
    option->default_str(key.get(TrainSettings{}))->take_last()->trigger_on_parse();
    if (key.kind == KeySpec::Kind::kBoolean) option->expected(0, 1);
  }
  command.add_option_function<std::string>("--model", note("model"), "Hugging Face config.json; explicit keys override it");
}

ExitCode run_command_line(int argc, char** argv, Peers peers) {
  configure_log(peers.ranks.rank(), "info");  // for errors of the arguments; set again as asked once they are read
  CLI::App app("flashbert: the MLPerf Training BERT benchmark in one program", "flashbert");
  app.set_version_flag("--version", version_text);
  app.require_subcommand(1);
  app.set_help_all_flag();
  std::string log_level = "info";
  Action action;
  add_train_command(app, peers, action);
  add_eval_command(app, peers, action);
  add_data_command(app, action);
  add_checkpoint_command(app, action);
  add_bench_command(app, action);
  add_report_command(app, action);
  add_log_level(app, log_level);
  allow_extras_everywhere(app);
  std::vector<std::string> arguments = plain_arguments(app, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  std::reverse(arguments.begin(), arguments.end());  // the parser takes them from the back
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help, --version
      if (peers.ranks.root()) app.exit(error);
      return ExitCode::kGood;
    }
    const auto words = chosen(app)->remaining();
    if (!words.empty()) refuse_word(*chosen(app), words.front());
    const std::string name = full_name(*chosen(app));
    throw ConfigError(fmt::format("{}: {}; see {} --help", name, error.what(), name));
  }
  const CLI::App* const command = chosen(app);
  for (const CLI::App* at = command; at != nullptr; at = at->get_parent()) {
    if (!at->remaining().empty()) refuse_word(*at, at->remaining().front());
  }
  // What has no use for ranks is done once, by the root.
  const CLI::App* first = command;
  while (first->get_parent() != nullptr && first->get_parent()->get_parent() != nullptr) first = first->get_parent();
  if (first->get_name() != "train" && first->get_name() != "eval" && !peers.ranks.root()) return ExitCode::kGood;
  configure_log(peers.ranks.rank(), log_level);
  return action();
}

}  // namespace flashbert
