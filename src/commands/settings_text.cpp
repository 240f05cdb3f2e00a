#include "commands/settings_text.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "commands/setting_keys.h"
#include "core/error.h"

namespace flashbert {
namespace {

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
bool affects_run(std::string_view variable) {
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

}  // namespace

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
    if (!affects_run(variable.substr(0, variable.find('=')))) continue;
    variables.push_back(one_line(variable));
  }
  std::sort(variables.begin(), variables.end());
  std::string text = "\n# Environment variables that matter\n";
  for (const std::string& variable : variables) text += fmt::format("# {}\n", variable);
  return text;
}

}  // namespace flashbert
