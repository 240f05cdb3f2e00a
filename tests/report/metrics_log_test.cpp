#include "report/metrics_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

#include "core/error.h"
#include "report_support.h"

namespace {

std::atomic<std::int64_t> allocations{0};

}  // namespace

/// Counts every allocation of the test program. Not inlined: g++ would see malloc paired with delete and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace flashbert::testing {
namespace {

StepMetrics example_step() {
  return {.step = 3,
          .samples = 1792,
          .loss = 0.1 + 0.2,
          .mlm_loss = 1.0 / 3.0,
          .nsp_loss = std::numeric_limits<double>::denorm_min(),
          .lr = 4.25e-4,
          .grad_norm = std::numeric_limits<double>::max(),
          .tokens = 123'456,
          .masked = 7'890,
          .step_s = 1e-7 / 3.0,
          .wait_s = 0.0};
}

nlohmann::json only_line(const std::filesystem::path& path) {
  const auto lines = read_lines(path);
  if (lines.size() != 1) throw std::runtime_error("expected one line");
  return nlohmann::json::parse(lines[0]);
}

TEST(MetricsLog, NumbersReadBackExactly) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  const StepMetrics record = example_step();
  MetricsLog(path).step(record);
  const nlohmann::json line = only_line(path);
  EXPECT_EQ(line.size(), 11U);
  EXPECT_EQ(line.at("step"), record.step);
  EXPECT_EQ(line.at("samples"), record.samples);
  EXPECT_EQ(line.at("loss").get<double>(), record.loss);
  EXPECT_EQ(line.at("mlm_loss").get<double>(), record.mlm_loss);
  EXPECT_EQ(line.at("nsp_loss").get<double>(), record.nsp_loss);
  EXPECT_EQ(line.at("lr").get<double>(), record.lr);
  EXPECT_EQ(line.at("grad_norm").get<double>(), record.grad_norm);
  EXPECT_EQ(line.at("tokens"), record.tokens);
  EXPECT_EQ(line.at("masked"), record.masked);
  EXPECT_EQ(line.at("step_s").get<double>(), record.step_s);
  EXPECT_EQ(line.at("wait_s").get<double>(), record.wait_s);
}

TEST(MetricsLog, EvaluationIsInTheFileAtOnceWithTheStepsBeforeIt) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  MetricsLog log(path);
  log.step(example_step());
  log.evaluation({.accuracy = 0.7207, .eval_samples = 10'000, .correct = 72, .masked = 100, .samples = 300'160});
  const auto lines = read_lines(path);
  ASSERT_EQ(lines.size(), 2U);
  const nlohmann::json line = nlohmann::json::parse(lines[1]);
  const nlohmann::json want = {
      {"eval_accuracy", 0.7207}, {"eval_samples", 10'000}, {"eval_correct", 72}, {"eval_masked", 100}, {"samples", 300'160}};
  EXPECT_EQ(line, want);
}

TEST(MetricsLog, NumbersThatAreNotFiniteAreNullWithTheirText) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "metrics.jsonl";
  StepMetrics record = example_step();
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.mlm_loss = std::numeric_limits<double>::infinity();
  record.grad_norm = -std::numeric_limits<double>::infinity();
  MetricsLog(path).step(record);
  const nlohmann::json line = only_line(path);
  for (const auto& [key, text] : {std::pair{"loss", "nan"}, std::pair{"mlm_loss", "inf"}, std::pair{"grad_norm", "-inf"}}) {
    EXPECT_TRUE(line.at(key).is_null()) << key;
    EXPECT_EQ(line.at(std::string(key) + "_text"), text);
  }
}

TEST(MetricsLog, StepsAndFlushesAllocateNothing) {
  const TemporaryFolder folder;
  // Longer than what a string holds in itself: copying the path would be seen.
  MetricsLog log(folder.path() / "a-name-that-is-longer-than-any-small-string.jsonl");
  const StepMetrics record = example_step();
  const std::int64_t before = allocations;
  // Some 200 bytes a step and a buffer of 1 MiB: it is emptied several times.
  for (int step = 0; step < 20'000; ++step) log.step(record);
  log.flush();
  EXPECT_EQ(allocations - before, 0);
}

TEST(MetricsLog, FullDiskIsAnEnvironmentErrorThatNamesTheFile) {
  MetricsLog log("/dev/full");
  log.step(example_step());
  try {
    log.flush();
    FAIL() << "no error";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
  }
  // The lines are dropped, so closing has nothing to complain about.
  EXPECT_NO_THROW(log.flush());
  EXPECT_THROW(MetricsLog("/proc/no/such/file"), EnvironmentError);
}

}  // namespace
}  // namespace flashbert::testing
