#include "commands/settings.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "commands/numbers.h"
#include "core/error.h"

extern char** environ;

namespace flashbert {
namespace {

const char* const kModelKey = "model";
// Variables of ours that are no keys.
const std::vector<std::string> kOtherVariables = {"FLASHBERT_SHARED",   "FLASHBERT_MAX_ISA",    "FLASHBERT_ALLOW_SINGLE",
                                                  "FLASHBERT_KEEP_OMP", "FLASHBERT_SOURCE_DIR", "FLASHBERT_BINARY_DIR"};

const KeySpec* find_key(std::string_view name) {
  for (const KeySpec& key : train_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::vector<std::string> key_names(std::string (*form)(const std::string&)) {
  std::vector<std::string> names;
  for (const KeySpec& key : train_keys()) names.push_back(form(key.name));
  names.push_back(form(kModelKey));
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : fmt::format("; the nearest known key is {}", near);
}

struct FileValue {
  std::string text;
  std::string place;
};

/// The TOML file as texts by key name (with '-').
std::map<std::string, FileValue> read_file(const std::filesystem::path& path) {
  std::map<std::string, FileValue> values;
  toml::table table;
  try {
    table = toml::parse_file(path.string());
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}, line {}: {}", path.string(), error.source().begin.line, error.description()));
  }
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const std::string place = fmt::format("{}, line {}", path.string(), key.source().begin.line);
    std::string option = name;
    std::replace(option.begin(), option.end(), '_', '-');
    const KeySpec* const spec = find_key(option);
    check<ConfigError>(spec != nullptr || option == kModelKey, "{}: unknown key {}{}", place, name,
                       did_you_mean(name, key_names(toml_name)));
    const auto kind = spec == nullptr ? KeySpec::Kind::kText : spec->kind;
    const auto wrong = [&](const char* wanted) { throw ConfigError(fmt::format("{}: {} must be a {}", place, name, wanted)); };
    std::string text;
    if (const auto* string = node.as_string()) {
      if (kind != KeySpec::Kind::kText) wrong(kind == KeySpec::Kind::kNumber ? "number, without quotes" : "boolean, without quotes");
      text = string->get();
    } else if (const auto* integer = node.as_integer()) {
      if (kind != KeySpec::Kind::kNumber) wrong(kind == KeySpec::Kind::kText ? "string, in quotes" : "boolean");
      text = std::to_string(integer->get());
    } else if (const auto* real = node.as_floating_point()) {
      if (kind != KeySpec::Kind::kNumber) wrong(kind == KeySpec::Kind::kText ? "string, in quotes" : "boolean");
      text = fmt::format("{}", real->get());
    } else if (const auto* boolean = node.as_boolean()) {
      if (kind != KeySpec::Kind::kBoolean) wrong(kind == KeySpec::Kind::kText ? "string, in quotes" : "number");
      text = boolean->get() ? "true" : "false";
    } else {
      wrong("plain value; keys are flat, without tables and lists");
    }
    values[option] = {text, place};
  }
  return values;
}

void set_value(ResolvedSettings& resolved, const std::string& name, const std::string& text, const std::string& origin) {
  const KeySpec* const key = find_key(name);
  check<ConfigError>(key != nullptr, "unknown option --{}{}", name, did_you_mean(name, key_names([](const std::string& k) { return k; })));
  try {
    key->set(resolved.values, text);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} (from {})", error.what(), origin));
  }
  resolved.origins[name] = origin;
}

void apply_model_file(ResolvedSettings& resolved, const std::filesystem::path& path) {
  std::string note;
  resolved.values.model = read_hugging_face_config(path, &note);
  resolved.notes.push_back(note);
  for (const char* const key :
       {"layers", "hidden", "heads", "intermediate", "vocab", "max-positions", "type-vocab", "hidden-dropout", "attention-dropout"}) {
    resolved.origins[key] = fmt::format("model file {}", path.string());
  }
}

/// The environment's keys; unknown variables are only noted: they may belong to another version.
std::map<std::string, std::string> environment_keys(const SettingSources& sources, ResolvedSettings& resolved) {
  std::map<std::string, std::string> keys;
  for (const auto& [variable, text] : sources.environment) {
    if (std::find(kOtherVariables.begin(), kOtherVariables.end(), variable) != kOtherVariables.end()) continue;
    bool known = variable == environment_name(kModelKey);
    if (known) keys[kModelKey] = text;
    for (const KeySpec& key : train_keys()) {
      if (environment_name(key.name) != variable) continue;
      keys[key.name] = text;
      known = true;
    }
    if (!known) {
      resolved.notes.push_back(fmt::format("the environment variable {} is no key and is ignored{}", variable,
                                           did_you_mean(variable, key_names(environment_name))));
    }
  }
  return keys;
}

}  // namespace

std::string toml_name(const std::string& key) {
  std::string name = key;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string environment_name(const std::string& key) {
  std::string name = "FLASHBERT_" + toml_name(key);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::map<std::string, std::string> flashbert_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("FLASHBERT_") && equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

ResolvedSettings resolve_settings(const SettingSources& sources) {
  ResolvedSettings resolved;
  for (const KeySpec& key : train_keys()) resolved.origins[key.name] = "default";
  const auto environment = environment_keys(sources, resolved);
  std::map<std::string, FileValue> file;
  if (!sources.config_file.empty()) file = read_file(sources.config_file);

  std::string model;
  if (const auto found = environment.find(kModelKey); found != environment.end()) model = found->second;
  if (const auto found = file.find(kModelKey); found != file.end()) model = found->second.text;
  for (const auto& [key, text] : sources.command_line) model = key == kModelKey ? text : model;
  if (!model.empty()) apply_model_file(resolved, model);

  for (const auto& [key, text] : environment) {
    if (key != kModelKey) set_value(resolved, key, text, "environment " + environment_name(key));
  }
  for (const auto& [key, value] : file) {
    if (key != kModelKey) set_value(resolved, key, value.text, "file " + value.place.substr(0, value.place.rfind(", line")));
  }
  for (const auto& [key, text] : sources.command_line) {
    if (key != kModelKey) set_value(resolved, key, text, "command line");
  }
  return resolved;
}

std::string settings_text(const ResolvedSettings& settings) {
  std::string text = "# Every value of the run and where it came from; can be given back with --config.\n";
  for (const KeySpec& key : train_keys()) {
    const std::string value = key.get(settings.values);
    const bool quoted = key.kind == KeySpec::Kind::kText;
    std::string line = fmt::format("{} = ", toml_name(key.name));
    if (quoted) {
      line += '"';
      for (const char c : value) line += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
      line += '"';
    } else {
      line += value;
    }
    text += fmt::format("{:<44} # {}\n", line, settings.origins.at(key.name));
  }
  text += "\n# Environment variables that matter\n";
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    for (const char* const prefix :
         {"FLASHBERT_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "HDF5_", "UCX_", "NCCL_", "CUDA_", "OMPI_MCA_", "SLURM_"}) {
      if (variable.starts_with(prefix)) variables.emplace_back(variable);
    }
  }
  std::sort(variables.begin(), variables.end());
  for (const std::string& variable : variables) text += fmt::format("# {}\n", variable);
  return text;
}

}  // namespace flashbert
