#include "commands/settings.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "commands/numbers.h"
#include "core/error.h"
#include "train/checkpoint.h"

namespace flashbert {
namespace {

const char* const kModelKey = "model";
// Variables of ours that are no keys.
const std::vector<std::string> kOtherVariables = {"FLASHBERT_SHARED", "FLASHBERT_MAX_ISA", "FLASHBERT_ALLOW_SINGLE", "FLASHBERT_KEEP_OMP"};

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

void set_value(ResolvedSettings& resolved, const std::string& name, const std::string& text, const Source& source) {
  const KeySpec* const key = find_key(name);
  check<ConfigError>(key != nullptr, "unknown option --{}{}", name, did_you_mean(name, key_names([](const std::string& k) { return k; })));
  const std::string hidden = key->get(resolved.values);
  try {
    key->set(resolved.values, text);
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

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// A TOML basic string.
std::string toml_string(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (is_control(c)) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + '"';
}

/// Fit for a comment: a line break in a value would start a line of its own.
std::string one_line(std::string_view value) {
  std::string text(value);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

/// Variables that change what a run does or how fast. Open MPI's launcher hands its own addresses, counts and identities to its processes
/// under the same prefix as users' settings: these say nothing.
bool matters(std::string_view variable) {
  for (const char* const internal :
       {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_shmem_RUNTIME", "OMPI_MCA_initial_wdir"}) {
    if (variable.starts_with(internal)) return false;
  }
  for (const char* const prefix :
       {"FLASHBERT_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "HDF5_", "UCX_", "NCCL_", "CUDA_", "OMPI_MCA_", "MALLOC_"}) {
    if (variable.starts_with(prefix)) return true;
  }
  return variable == "GLIBC_TUNABLES" || variable == "SLURM_JOB_ID" || variable == "SLURM_JOB_NUM_NODES" || variable == "SLURM_NTASKS";
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

/// What the sources say of a key, the highest rank counting; empty where none says anything.
std::string said(const std::string& key, const std::map<std::string, std::string>& environment,
                 const std::map<std::string, FileValue>& file, const std::vector<std::pair<std::string, std::string>>& command_line) {
  std::string text;
  if (const auto found = file.find(key); found != file.end()) text = found->second.text;
  if (const auto found = environment.find(key); found != environment.end()) text = found->second;
  for (const auto& [name, given] : command_line) text = name == key ? given : text;
  return text;
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

  std::string model = said(kModelKey, environment, file, sources.command_line);
  const std::string init = said("init", environment, file, sources.command_line);
  if (model.empty() && !init.empty() && init != "random") model = config_beside(init).value_or(std::filesystem::path()).string();
  if (!model.empty()) apply_model_file(resolved, model);

  for (const auto& [key, value] : file) {
    if (key != kModelKey) set_value(resolved, key, value.text, {"file " + sources.config_file.string(), "file " + value.place});
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

std::string settings_text(const ResolvedSettings& settings, const std::vector<DecidedValue>& decided) {
  std::string text = "# Every value as it ran and where it came from; given back with --config it repeats the run.\n";
  for (const KeySpec& key : train_keys()) {
    std::string value = key.get(settings.values);
    std::string origin = settings.origins.at(key.name);
    for (const DecidedValue& ran : decided) {
      if (ran.key != key.name) continue;
      origin = fmt::format("asked: {} ({}); {}", value, origin, ran.reason);
      value = ran.value;
    }
    const std::string line = fmt::format("{} = {}", toml_name(key.name), key.kind == KeySpec::Kind::kText ? toml_string(value) : value);
    text += fmt::format("{:<44} # {}\n", line, one_line(origin));
  }
  return text;
}

std::string environment_text() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (!matters(variable.substr(0, variable.find('=')))) continue;
    variables.push_back(one_line(variable));
  }
  std::sort(variables.begin(), variables.end());
  std::string text = "\n# Environment variables that matter\n";
  for (const std::string& variable : variables) text += fmt::format("# {}\n", variable);
  return text;
}

}  // namespace flashbert
