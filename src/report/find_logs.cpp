#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "report/set_score.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

bool is_result_name(const std::string& name) { return name.starts_with("result_") && name.ends_with(".txt"); }

/// result_10.txt comes after result_9.txt.
bool natural_less(const fs::path& a, const fs::path& b) {
  const std::string x = a.string(), y = b.string();
  const auto folder_a = a.parent_path(), folder_b = b.parent_path();
  if (folder_a != folder_b) return x < y;
  return x.size() != y.size() && is_result_name(a.filename().string()) && is_result_name(b.filename().string()) ? x.size() < y.size()
                                                                                                                : x < y;
}

struct FolderContent {
  std::vector<fs::path> files, folders;
};

FolderContent content_of(const fs::path& folder) {
  FolderContent content;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (!entry->is_symlink(ignored)) content.folders.push_back(entry->path());  // a link may lead back up
    } else if (entry->is_regular_file(ignored)) {
      content.files.push_back(entry->path());
    }
  }
  check<InputError>(!error, "cannot list {}: {}", folder.string(), error.message());
  std::sort(content.files.begin(), content.files.end(), natural_less);
  std::sort(content.folders.begin(), content.folders.end());
  return content;
}

void search(const fs::path& folder, FoundLogs& found) {
  const FolderContent content = content_of(folder);
  RunSet results{folder, {}}, subfolders{folder, {}};
  for (const fs::path& file : content.files) {
    const std::string name = file.filename().string();
    if (is_result_name(name)) results.files.push_back(file);
    if (is_result_name(name) || name == "mllog.txt") found.files.push_back(file);
  }
  for (const fs::path& inner : content.folders) {
    std::error_code ignored;
    if (fs::is_regular_file(inner / "mllog.txt", ignored)) subfolders.files.push_back(inner / "mllog.txt");
  }
  if (!results.files.empty()) found.sets.push_back(std::move(results));
  if (!subfolders.files.empty()) found.sets.push_back(std::move(subfolders));
  for (const fs::path& inner : content.folders) search(inner, found);
}

}  // namespace

FoundLogs find_logs(const fs::path& path) {
  std::error_code ignored;
  check<InputError>(fs::exists(path, ignored), "{} does not exist; name a log or a folder of logs", path.string());
  FoundLogs found;
  if (!fs::is_directory(path, ignored)) {
    found.files.push_back(path);
    return found;
  }
  search(path, found);
  if (found.files.empty()) {
    for (const fs::path& file : content_of(path).files) {
      if (looks_like_mlperf_log(file)) found.files.push_back(file);
    }
  }
  check<InputError>(!found.files.empty(), "{} holds no result_*.txt and no mllog.txt; name the folder of the runs or a log", path.string());
  return found;
}

}  // namespace flashbert
