#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/train_settings.h"

namespace flashbert {

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

}  // namespace flashbert
