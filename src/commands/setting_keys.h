#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/options.h"
#include "train/train_settings.h"

namespace flashbert {

/// One key of `train` and `eval`: the same name is an option (--global-batch), a TOML key (global_batch) and an environment variable
/// (FLASHBERT_GLOBAL_BATCH). THE list is train_keys(); to add an option, add a member to TrainSettings and a row there.
struct KeySpec {
  enum class Kind { kText, kNumber, kBoolean };
  std::string name;
  Kind kind = Kind::kText;
  std::string help;
  std::function<void(TrainSettings&, const OptionValue&)> set;  ///< throws ConfigError: another type, out of range
  std::function<std::string(const TrainSettings&)> get;         ///< text that set() reads back
};
const std::vector<KeySpec>& train_keys();

/// By the option's name; null where there is none.
const KeySpec* find_key(std::string_view name);

/// "global-batch" -> "global_batch", and back; "FLASHBERT_GLOBAL_BATCH".
std::string toml_name(const std::string& key);
std::string option_name(const std::string& toml_key);
std::string environment_name(const std::string& key);

}  // namespace flashbert
