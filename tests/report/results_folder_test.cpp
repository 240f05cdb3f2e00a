#include "report/results_folder.h"

#include "core/whole_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "core/error.h"
#include "report_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

const char* const kResults[] = {"config.toml", "mllog.txt", "metrics.jsonl", "report.json", "system.json", "accuracy.txt", "checkpoints"};

/// No file of this process may grow beyond the limit while it lives: what a full disk looks like to a writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(ResultsFolder, IsMadeWithItsParentsAndLeftEmpty) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "a" / "b" / "c";
  prepare_results_folder(out, ExistingResults::kRefuse);
  EXPECT_TRUE(fs::is_directory(out));
  EXPECT_TRUE(fs::is_empty(out));
  EXPECT_NO_THROW(prepare_results_folder(out, ExistingResults::kRefuse));
}

TEST(ResultsFolder, EveryKindOfResultIsRefusedAndKept) {
  for (const char* const name : kResults) {
    const TemporaryFolder folder;
    write_text(folder.path() / name, "kept");
    try {
      prepare_results_folder(folder.path(), ExistingResults::kRefuse);
      FAIL() << name;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.code(), ExitCode::kWrongUse);
      EXPECT_NE(std::string(error.what()).find("--overwrite"), std::string::npos);
    }
    EXPECT_EQ(read_text(folder.path() / name), "kept");
  }
}

TEST(ResultsFolder, OverwritingRemovesResultsAndNothingElse) {
  const TemporaryFolder folder;
  for (const char* const name : kResults) {
    if (std::string_view(name) != "checkpoints") write_text(folder.path() / name, "old");
  }
  fs::create_directories(folder.path() / "checkpoints" / "step-00000001");
  write_text(folder.path() / "notes.txt", "mine");
  prepare_results_folder(folder.path(), ExistingResults::kOverwrite);
  for (const char* const name : kResults) EXPECT_FALSE(fs::exists(folder.path() / name)) << name;
  EXPECT_EQ(read_text(folder.path() / "notes.txt"), "mine");
}

TEST(ResultsFolder, PathThroughAFileIsAnEnvironmentError) {
  const TemporaryFolder folder;
  write_text(folder.path() / "file", "");
  EXPECT_THROW(prepare_results_folder(folder.path() / "file", ExistingResults::kRefuse), EnvironmentError);
  EXPECT_THROW(prepare_results_folder(folder.path() / "file" / "out", ExistingResults::kRefuse), EnvironmentError);
}

TEST(ResultsFolder, FolderWithoutWritePermissionIsAnEnvironmentError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THROW(prepare_results_folder(folder.path(), ExistingResults::kRefuse), EnvironmentError);
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(ResultsFolder, FullDiskIsFoundBeforeTheRunAndLeavesNothing) {
  const TemporaryFolder folder;
  {
    const FileSizeLimit limit(4096);
    EXPECT_THROW(prepare_results_folder(folder.path(), ExistingResults::kRefuse), EnvironmentError);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(WriteWholeFile, ReplacesTheWholeFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  write_whole_file(path, "a longer first text");
  write_whole_file(path, std::string_view("short\0text", 10));
  EXPECT_EQ(read_text(path), std::string("short\0text", 10));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(WriteWholeFile, FailureKeepsTheOldFileAndNamesItsPath) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "report.json";
  write_whole_file(path, "old");
  try {
    const FileSizeLimit limit(4096);
    write_whole_file(path, std::string(100'000, 'x'));
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos);
  }
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace flashbert::testing
