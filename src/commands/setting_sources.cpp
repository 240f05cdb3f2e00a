#include "commands/setting_sources.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "commands/options.h"
#include "commands/setting_keys.h"
#include "core/error.h"
#include "train/checkpoint_files.h"

namespace flashbert {
namespace {

const char* const kModelKey = "model";
// Variables of ours that are no keys.
const std::vector<std::string> kOtherVariables = {"FLASHBERT_SHARED", "FLASHBERT_MAX_ISA", "FLASHBERT_ALLOW_SINGLE", "FLASHBERT_KEEP_OMP"};

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
  OptionValue value;
  std::string place;
};

/// The value as the file's syntax types it, where that is the type of the key. `where` begins the message of the ConfigError: place and
/// key.
OptionValue typed_value(const toml::node& node, KeySpec::Kind kind, const std::string& where) {
  using Kind = KeySpec::Kind;
  const bool quoted = node.is_string();
  const bool plain = quoted || node.is_number() || node.is_boolean();
  check<ConfigError>(plain, "{} must be a plain value; keys are flat, without tables and lists", where);
  const bool fits = kind == Kind::kText ? quoted : kind == Kind::kNumber ? node.is_number() : node.is_boolean();
  const char* const wanted = kind == Kind::kText ? "string, in quotes" : kind == Kind::kNumber ? "number" : "boolean";
  check<ConfigError>(fits, "{} must be a {}{}", where, wanted, quoted ? ", without quotes" : "");
  if (const auto* const string = node.as_string()) return string->get();
  if (const auto* const integer = node.as_integer()) return integer->get();
  if (const auto* const real = node.as_floating_point()) return real->get();
  return node.as_boolean()->get();
}

/// What the TOML file says, by key name (with '-').
std::map<std::string, FileValue> read_file(const std::filesystem::path& path) {
  check<InputError>(std::filesystem::is_regular_file(path), "there is no configuration file {}; configs/ holds examples", path.string());
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
    const std::string option = option_name(name);
    const KeySpec* const spec = find_key(option);
    check<ConfigError>(spec != nullptr || option == kModelKey, "{}: unknown key {}{}", place, name,
                       did_you_mean(name, key_names(toml_name)));
    const auto kind = spec == nullptr ? KeySpec::Kind::kText : spec->kind;
    values[option] = {typed_value(node, kind, fmt::format("{}: {}", place, name)), place};
  }
  return values;
}

/// Where a value came from: `origin` is kept, `place` (with the line of a file) stands in errors.
struct Source {
  std::string origin, place;
};

/// "command line, hides 2 from environment FLASHBERT_SEED": what one source says over another. Of the same source the last word counts, and
/// defaults and model files are there to be replaced: that is no news.
std::string origin_over(const std::string& earlier, const std::string& hidden, const Source& source) {
  if (earlier == "default" || earlier.starts_with("model file")) return source.origin;
  if (earlier.starts_with(source.origin)) return earlier;
  return fmt::format("{}, hides {} from {}", source.origin, hidden, earlier);
}

void set_value(ResolvedSettings& resolved, const std::string& name, const OptionValue& value, const Source& source) {
  const KeySpec* const key = find_key(name);
  check<ConfigError>(key != nullptr, "unknown option --{}{}", name, did_you_mean(name, key_names([](const std::string& k) { return k; })));
  const std::string hidden = key->get(resolved.values);
  try {
    key->set(resolved.values, value);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} (from {})", error.what(), source.place));
  }
  std::string& origin = resolved.origins[name];
  // A variable that was exported once is easily forgotten; options are there to be seen.
  if (source.origin.starts_with("environment") && origin.starts_with("file") && key->get(resolved.values) != hidden) {
    resolved.notes.push_back(
        fmt::format("{} is {} from {}, which hides {} from {}", name, key->get(resolved.values), source.origin, hidden, origin));
  }
  origin = origin_over(origin, hidden, source);
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

/// What the sources say of a key of texts, the highest rank counting; empty where none says anything.
std::string resolved_text(const std::string& key, const std::map<std::string, std::string>& environment,
                          const std::map<std::string, FileValue>& file,
                          const std::vector<std::pair<std::string, std::string>>& command_line) {
  std::string text;
  if (const auto found = file.find(key); found != file.end()) text = std::get<std::string>(found->second.value);
  if (const auto found = environment.find(key); found != environment.end()) text = found->second;
  for (const auto& [name, given] : command_line) text = name == key ? given : text;
  return text;
}

}  // namespace

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

  std::string model = resolved_text(kModelKey, environment, file, sources.command_line);
  const std::string init = resolved_text("init", environment, file, sources.command_line);
  if (model.empty() && !init.empty() && init != "random") model = config_beside(init).value_or(std::filesystem::path()).string();
  if (!model.empty()) apply_model_file(resolved, model);

  for (const auto& [key, value] : file) {
    if (key != kModelKey) set_value(resolved, key, value.value, {"file " + sources.config_file.string(), "file " + value.place});
  }
  for (const auto& [key, text] : environment) {
    const std::string origin = "environment " + environment_name(key);
    if (key != kModelKey) set_value(resolved, key, text, {origin, origin});
  }
  for (const auto& [key, text] : sources.command_line) {
    if (key != kModelKey) set_value(resolved, key, text, {"command line", "command line"});
  }
  return resolved;
}

}  // namespace flashbert
