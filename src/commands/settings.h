#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/decided_values.h"
#include "train/train_settings.h"

namespace flashbert {

/// One key of `train` and `eval`: the same name is an option (--global-batch), a TOML key (global_batch) and an environment variable
/// (FLASHBERT_GLOBAL_BATCH). THE list is train_keys(); to add an option, add a member to TrainSettings and a row there.
struct KeySpec {
  enum class Kind { kText, kNumber, kBoolean };
  std::string name;
  Kind kind = Kind::kText;
  std::string help;
  std::function<void(TrainSettings&, const std::string&)> set;  ///< throws ConfigError
  std::function<std::string(const TrainSettings&)> get;         ///< text that set() reads back
};
const std::vector<KeySpec>& train_keys();

/// "global-batch" -> "global_batch", "FLASHBERT_GLOBAL_BATCH".
std::string toml_name(const std::string& key);
std::string environment_name(const std::string& key);

/// What the sources said, as text.
struct SettingSources {
  std::vector<std::pair<std::string, std::string>> command_line;  ///< key (with '-') and text
  std::filesystem::path config_file;                              ///< empty = none
  std::map<std::string, std::string> environment;                 ///< all FLASHBERT_* variables
};

struct ResolvedSettings {
  TrainSettings values;
  std::map<std::string, std::string> origins;  ///< key -> "command line", "environment FLASHBERT_SEED", "file demo.toml", "model file x" or
                                               ///< "default", and what it hides: "command line, hides 4 from file demo.toml"
  std::vector<std::string> notes;  ///< for the log: unknown variables with the nearest key, variables that hide the file's values, how gelu
                                   ///< is read
};

/// Command line > environment > file > default; `model` names a Hugging Face config.json that ranks just above the defaults. Without it
/// the config.json beside the checkpoint that `init` names is taken, where there is one.
/// Throws ConfigError: unknown key (with the nearest), wrong type or range (with option, value, limit, place), broken TOML (with line);
/// InputError where the file is missing.
ResolvedSettings resolve_settings(const SettingSources& sources);

/// The FLASHBERT_* variables of this process.
std::map<std::string, std::string> flashbert_environment();

/// All keys with values and origins as TOML; reads back to the same settings. What the run decided stands as decided, with what was asked,
/// its origin and the reason: `seed = 123  # asked: 0 (default); drawn from the system`.
std::string settings_text(const ResolvedSettings& settings, const std::vector<DecidedValue>& decided);

/// The environment variables of this process that change what a run does, as TOML comments.
std::string environment_text();

}  // namespace flashbert
