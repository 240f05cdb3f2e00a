#include "report/mllog.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "report_support.h"

namespace flashbert::testing {
namespace {

TEST(MlLog, RecordsHaveTheFieldsThatReadersNeed) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  const int line = __LINE__ + 1;
  log.event("seed", 7);
  log.start("run_start");
  log.stop("run_stop", {{"status", "success"}});
  const auto records = read_records(folder.path() / "log");
  ASSERT_EQ(records.size(), 3U);
  const char* const types[] = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].at("namespace"), "");
    EXPECT_EQ(records[i].at("event_type"), types[i]);
    EXPECT_TRUE(records[i].at("time_ms").is_number_integer());
    EXPECT_EQ(records[i].at("metadata").at("file"), "mllog_test.cpp");
    EXPECT_EQ(records[i].at("metadata").at("lineno"), line + static_cast<int>(i));
  }
  EXPECT_EQ(records[0].at("value"), 7);
  EXPECT_TRUE(records[1].at("value").is_null());
  EXPECT_EQ(records[2].at("metadata").at("status"), "success");
}

TEST(MlLog, EveryRecordIsInTheFileWhenTheCallReturns) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  for (std::size_t i = 1; i <= 3; ++i) {
    log.event("eval_accuracy", 0.5);
    EXPECT_EQ(read_records(folder.path() / "log").size(), i);
  }
}

TEST(MlLog, NumbersThatAreNotFiniteAreNullWithTheirText) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  log.event("a", std::numeric_limits<double>::quiet_NaN());
  log.event("b", std::numeric_limits<double>::infinity());
  log.event("c", -std::numeric_limits<double>::infinity());
  const auto records = read_records(folder.path() / "log");
  const char* const texts[] = {"nan", "inf", "-inf"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(records.at(i).at("value").is_null());
    EXPECT_EQ(records.at(i).at("metadata").at("text"), texts[i]);
  }
}

TEST(MlLog, TextFromOutsideNeverBreaksALine) {
  const TemporaryFolder folder;
  MlLog log(folder.path() / "log");
  log.event("submission_org", "two\nlines, a \"quote\" and a byte that is no UTF-8: \xff");
  EXPECT_EQ(read_lines(folder.path() / "log").size(), 1U);
  EXPECT_EQ(read_records(folder.path() / "log").size(), 1U);
}

TEST(MlLog, FileThatCannotBeMadeOrTakesNothingIsAnEnvironmentError) {
  EXPECT_THROW(MlLog("/proc/no/such/log"), EnvironmentError);
  MlLog full("/dev/full");
  EXPECT_THROW(full.event("seed", 1), EnvironmentError);
}

}  // namespace
}  // namespace flashbert::testing
