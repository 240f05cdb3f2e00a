#include "report/log_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "core/error.h"
#include "log_support.h"

namespace flashbert::testing {
namespace {

const std::string kSmall = R"(:::MLLOG {"time_ms": 5, "key": "seed", "value": 17, "metadata": {}})";

TEST(LogReader, ReadsEveryFormOfALine) {
  for (const char* const before : {"", "0: ", "[1,3]<stdout>:", "\xff\xfe binary \x01 "}) {
    for (const char* const end : {"\n", "\r\n", "\r", " \t\n", "\xa0\n", ""}) {
      const MlperfLog log = read_log_text(before + kSmall + end);
      ASSERT_EQ(log.records.size(), 1U) << before << end;
      EXPECT_EQ(log.records[0].key, "seed");
      EXPECT_EQ(log.records[0].value, 17);
      EXPECT_EQ(log.records[0].time_ms, 5.0);
      EXPECT_EQ(log.records[0].line, 1);
      EXPECT_EQ(log.broken_count, 0);
    }
  }
}

TEST(LogReader, TellsTheLineInTheFile) {
  const MlperfLog log = read_log_text("plain\n\nplain\n" + kSmall + "\nplain\n" + kSmall);
  ASSERT_EQ(log.records.size(), 2U);
  EXPECT_EQ(log.records[0].line, 4);
  EXPECT_EQ(log.records[1].line, 6);
}

TEST(LogReader, RecordsAcrossBlocksAreWhole) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  for (std::size_t shift = 0; shift <= kSmall.size() + 2; ++shift) {
    const std::string text = std::string(kBlock - shift, 'x') + kSmall + "\n" + std::string(3 * kBlock, 'y') + "\n" + kSmall + "\n";
    const MlperfLog log = read_log_text(text);
    ASSERT_EQ(log.records.size(), 2U) << shift;
    EXPECT_EQ(log.records[1].line, 3) << shift;
    EXPECT_EQ(log.records[1].value, 17) << shift;
  }
}

TEST(LogReader, LatinOneAndUnicodeAreText) {
  const MlperfLog log = read_log_text(
      ":::MLLOG {\"time_ms\": 5, \"key\": \"seed\", \"value\": \"caf\xe9 \xa0\", \"metadata\": {}}\n"
      ":::MLLOG {\"time_ms\": 5, \"key\": \"seed\", \"value\": \"caf\xc3\xa9\", \"metadata\": {}}\n");
  ASSERT_EQ(log.records.size(), 2U);
  EXPECT_EQ(log.records[0].value, "caf\xc3\xa9 \xc2\xa0");
  EXPECT_EQ(log.records[1].value, "caf\xc3\xa9");
}

TEST(LogReader, WordsForNumbersAreNumbersOutsideOfTexts) {
  const MlperfLog log = read_log_text(
      R"(:::MLLOG {"time_ms": "12.5", "key": "seed", "value": [NaN, Infinity, -Infinity, 1e400, -1e999, "NaN \" Infinity"], "metadata": {}})");
  ASSERT_EQ(log.records.size(), 1U) << (log.broken.empty() ? "" : log.broken[0].message);
  const nlohmann::json& value = log.records[0].value;
  EXPECT_TRUE(std::isnan(value[0].get<double>()));
  for (const auto& [place, sign] : {std::pair{1, 1.0}, {2, -1.0}, {3, 1.0}, {4, -1.0}}) {
    EXPECT_EQ(value[static_cast<std::size_t>(place)], sign * HUGE_VAL) << place;
  }
  EXPECT_EQ(value[5], "NaN \" Infinity");
  EXPECT_EQ(log.records[0].time_ms, 12.5);
}

TEST(LogReader, BrokenRecordsNameLineAndFault) {
  for (const auto& [text, word] : {std::pair{"", "nothing"},
                                   {R"({"time_ms": 5, "key": "se)", "whole JSON"},
                                   {"[]", "object"},
                                   {R"({"time_ms": 5, "key": "seed", "value": 1})", "metadata"},
                                   {R"({"time_ms": "soon", "key": "seed", "value": 1, "metadata": {}})", "time_ms"},
                                   {R"({"time_ms": null, "key": "seed", "value": 1, "metadata": {}})", "time_ms"}}) {
    const MlperfLog log = read_log_text("plain\n:::MLLOG " + std::string(text) + "\n");
    ASSERT_EQ(log.broken.size(), 1U) << text;
    EXPECT_NE(log.broken[0].message.find(word), std::string::npos) << log.broken[0].message;
    EXPECT_EQ(log.broken[0].line, 2);
    EXPECT_TRUE(log.records.empty());
  }
}

TEST(LogReader, WhatNoToolSeesIsNamed) {
  const MlperfLog log = read_log_text(":::MLLOG\t{}\n:::MLLOG{}\n" + kSmall + kSmall + "\n");
  EXPECT_EQ(log.invisible.size(), 3U);
  EXPECT_EQ(log.record_count, 1);
}

TEST(LogReader, KeepsOnlyWhatIsAskedForAndWhatMentionsAWord) {
  const MlperfLog log = read_log_text(R"(:::MLLOG {"time_ms": 5, "key": "other", "value": 1, "metadata": {}}
:::MLLOG {"time_ms": 5, "key": "other", "value": 1, "metadata": {"file": "global_batch_size.cc"}}
)");
  EXPECT_EQ(log.record_count, 2);
  ASSERT_EQ(log.records.size(), 1U);
  EXPECT_TRUE(log.records[0].mentions.global_batch_size);
}

TEST(LogReader, CompressedLogsAreReadAlike) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "log.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzwrite(file, kSmall.data(), static_cast<unsigned>(kSmall.size()));
  gzclose(file);
  EXPECT_EQ(read_mlperf_log(path, is_judged_key).records.size(), 1U);
}

TEST(LogReader, ALineWithoutEndCostsOnePassAndBoundedMemory) {
  const std::string text = ":::MLLOG {\"a\": \"" + std::string(std::size_t{40} << 20, 'x') + "\n" + kSmall + "\n";
  const MlperfLog log = read_log_text(text);
  EXPECT_EQ(log.broken_count, 1);
  ASSERT_EQ(log.records.size(), 1U);
  EXPECT_EQ(log.records[0].line, 2);
}

TEST(LogReader, MissingFilesAndFoldersAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_mlperf_log(folder.path() / "absent", is_judged_key), InputError);
  EXPECT_THROW(read_mlperf_log(folder.path(), is_judged_key), InputError);
}

}  // namespace
}  // namespace flashbert::testing
