#include "core/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace flashbert {
namespace {

namespace fs = std::filesystem;

class WriteWholeFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("flashbert-whole-file-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path()).rdbuf();
    return text.str();
  }
  [[nodiscard]] fs::path path() const { return folder_ / "report.json"; }
  [[nodiscard]] std::int64_t files() const { return std::distance(fs::directory_iterator(folder_), fs::directory_iterator()); }
  fs::path folder_;
};

TEST_F(WriteWholeFile, ReplacesTheWholeFile) {
  write_whole_file(path(), "a longer first text");
  write_whole_file(path(), std::string_view("short\0text", 10));
  EXPECT_EQ(content(), std::string("short\0text", 10));
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteWholeFile, FailureKeepsTheOldFileAndNamesPathAndSize) {
  write_whole_file(path(), "old");
  // A limit on the size of files: to a writer, a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_whole_file(path(), std::string(100'000, 'x'));
  } catch (const EnvironmentError& error) {
    message = error.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, ::testing::AllOf(::testing::HasSubstr(path().string()), ::testing::HasSubstr("100000 bytes are needed")));
  EXPECT_EQ(content(), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(WriteWholeFile, AFolderThatIsNotThereIsAnEnvironmentError) {
  EXPECT_THROW(write_whole_file(folder_ / "absent" / "file", "text"), EnvironmentError);
}

TEST_F(WriteWholeFile, FoldersAreMadeWithTheirParentsUnlessAFileIsInTheWay) {
  make_folder(folder_ / "a/b");
  EXPECT_TRUE(fs::is_directory(folder_ / "a/b"));
  write_whole_file(path(), "");
  EXPECT_THROW(make_folder(path()), EnvironmentError);
  EXPECT_THROW(make_folder(path() / "below"), EnvironmentError);
}

}  // namespace
}  // namespace flashbert
