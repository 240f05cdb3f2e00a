#include "report/results_folder.h"

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

TEST(ResultsFolder, KnowsWhatOverwritingWouldRemove) {
  const fs::path out = "/somewhere/results";
  EXPECT_TRUE(is_result(out, out / "checkpoints/step-00000001"));
  EXPECT_TRUE(is_result(out, "/somewhere/results/../results/checkpoints"));
  EXPECT_TRUE(is_result(out, out / "config.toml"));
  for (const char* const other : {"/somewhere/results", "/somewhere/results/data", "/somewhere/checkpoints", "/elsewhere/checkpoints"})
    EXPECT_FALSE(is_result(out, other)) << other;
}

TEST(ResultsFolder, CheckingTouchesNothing) {
  const TemporaryFolder folder;
  check_results_folder(folder.path() / "new", ExistingResults::kRefuse);
  EXPECT_FALSE(fs::exists(folder.path() / "new"));
  write_text(folder.path() / "report.json", "old");
  check_results_folder(folder.path(), ExistingResults::kOverwrite);
  EXPECT_THROW(check_results_folder(folder.path(), ExistingResults::kRefuse), ConfigError);
  EXPECT_EQ(read_text(folder.path() / "report.json"), "old");
}

}  // namespace
}  // namespace flashbert::testing
