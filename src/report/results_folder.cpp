#include "report/results_folder.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "core/error.h"
#include "core/whole_file.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

constexpr const char* kResultNames[] = {"config.toml", "mllog.txt",    "metrics.jsonl", "report.json",
                                        "system.json", "accuracy.txt", "checkpoints"};
constexpr std::size_t kProbeBytes = 64 * 1024;  // what the small files of a run need at least

}  // namespace

void check_results_folder(const fs::path& out, ExistingResults existing) {
  if (existing == ExistingResults::kOverwrite) return;
  std::error_code ignored;
  for (const char* const name : kResultNames) {
    check<ConfigError>(!fs::exists(out / name, ignored), "{} holds results already ({}); choose another --out or add --overwrite",
                       out.string(), name);
  }
}

void prepare_results_folder(const fs::path& out, ExistingResults existing) {
  make_folder(out);
  check_results_folder(out, existing);
  remove_results(out);
  const fs::path probe = out / ".probe";
  write_whole_file(probe, std::string(kProbeBytes, ' '));
  std::error_code ignored;
  fs::remove(probe, ignored);
}

void remove_results(const fs::path& out) {
  for (const char* const name : kResultNames) {
    std::error_code error;
    fs::remove_all(out / name, error);
    check<EnvironmentError>(!error, "cannot remove {}: {}", (out / name).string(), error.message());
  }
}

bool lies_in(const fs::path& path, const fs::path& place) {
  std::error_code ignored;
  const fs::path inside = fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(place, ignored));
  return !inside.empty() && *inside.begin() != "..";
}

bool is_result(const fs::path& out, const fs::path& path) {
  return std::any_of(std::begin(kResultNames), std::end(kResultNames), [&](const char* name) { return lies_in(path, out / name); });
}

}  // namespace flashbert
