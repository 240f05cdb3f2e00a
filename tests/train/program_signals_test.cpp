// Signals from outside while the program trains.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// Longer than anything here takes on a machine that is busy and a build that is slow; what hangs is killed then.
constexpr std::chrono::seconds kPatience{120};

bool wait_until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// `flashbert train` as a child that can be signalled.
class RunningTrain {
 public:
  RunningTrain(const std::string& name, const std::string& options) : out_(work_folder() / name), trace_(out_.string() + ".trace") {
    const std::string command = fmt::format("exec {} train --out {} --overwrite --trace-samples {} {} >{} 2>&1", FLASHBERT_PROGRAM,
                                            out_.string(), trace_.string(), options, text_path().string());
    child_ = ::fork();
    if (child_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~RunningTrain() {
    if (!ended_) ::kill(child_, SIGKILL);
    if (!ended_) ::waitpid(child_, nullptr, 0);
  }
  RunningTrain(const RunningTrain&) = delete;
  RunningTrain& operator=(const RunningTrain&) = delete;

  /// Inside the first step or later: the trace is written when a step has its samples.
  bool wait_for_a_step() {
    std::error_code ignored;
    return wait_until([&] { return ended() || (fs::exists(trace_, ignored) && fs::file_size(trace_, ignored) > 0); }) && !ended_;
  }
  bool wait_for_text(const std::string& text) {
    return wait_until([&] { return ended() || output().find(text) != std::string::npos; }) && !ended_;
  }
  void signal(int number) const { ::kill(child_, number); }
  /// Exit status as a shell tells it: 128 and the number where a signal ended the process, -1 where it had to be killed.
  TrainedRun end() {
    const bool in_time = wait_until([&] { return ended(); });
    const int status = !in_time ? -1 : WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    return {.status = status, .output = output(), .out = out_};
  }

 private:
  [[nodiscard]] fs::path text_path() const { return out_.string() + ".text"; }
  [[nodiscard]] std::string output() const {
    std::ostringstream text;
    text << std::ifstream(text_path()).rdbuf();
    return text.str();
  }
  bool ended() {
    if (!ended_) ended_ = ::waitpid(child_, &status_, WNOHANG) == child_;
    return ended_;
  }

  fs::path out_, trace_;
  pid_t child_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

class ProgramSignals : public ::testing::TestWithParam<int> {};

TEST_P(ProgramSignals, EndTheRunAfterTheStepWithOneStopRecordAndASave) {
  RunningTrain running(fmt::format("signal{}", GetParam()), small_run(small_data()) + " --max-steps 100000000 --save-at-end");
  ASSERT_TRUE(running.wait_for_a_step());
  running.signal(GetParam());
  const TrainedRun run = running.end();
  ASSERT_EQ(run.status, 6) << run.output;
  run.expect_one_stop("aborted");
  const auto report = run.report();
  EXPECT_EQ(report["status"], "aborted");
  EXPECT_EQ(report["reason"], fmt::format("ended by signal {}", GetParam()));
  const auto steps = report["steps"].get<std::int64_t>();
  EXPECT_GE(steps, 1);
  EXPECT_EQ(std::ssize(run.step_metrics()), steps);
  std::string latest;
  std::ifstream(run.out / "checkpoints/latest") >> latest;
  EXPECT_EQ(latest, fmt::format("step-{:08d}", steps));
}

INSTANTIATE_TEST_SUITE_P(Numbers, ProgramSignals, ::testing::Values(SIGINT, SIGTERM),
                         [](const ::testing::TestParamInfo<int>& number) { return number.param == SIGINT ? "SIGINT" : "SIGTERM"; });

TEST(ProgramSignalsTwice, WithinAMomentAreTheSameWish) {
  // A step of some 1 TFLOP: no processor is through with it between the two signals.
  RunningTrain running("signals", fmt::format("--layers 2 --hidden 512 --heads 8 --intermediate 2048 --vocab 1024 --max-positions 128 "
                                              "--train-data {}/train --global-batch 512 --micro-batch 16 --max-steps 2",
                                              small_data().string()));
  ASSERT_TRUE(running.wait_for_a_step());
  running.signal(SIGTERM);
  ASSERT_TRUE(running.wait_for_text("stopping after this step"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  running.signal(SIGTERM);
  const TrainedRun run = running.end();
  EXPECT_EQ(run.status, 6) << run.output;
}

TEST(ProgramSignalsTwice, EndTheProcessAtOnce) {
  // A step of 16,384 samples and some 40 TFLOP: no processor is through with it before the second signal.
  RunningTrain running("signals", fmt::format("--layers 2 --hidden 512 --heads 8 --intermediate 2048 --vocab 1024 --max-positions 128 "
                                              "--train-data {}/train --global-batch 16384 --micro-batch 16 --max-steps 1",
                                              small_data().string()));
  ASSERT_TRUE(running.wait_for_a_step());
  running.signal(SIGTERM);
  ASSERT_TRUE(running.wait_for_text("stopping after this step"));
  // Within a second both would count as the same wish.
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  running.signal(SIGTERM);
  const TrainedRun run = running.end();
  EXPECT_EQ(run.status, 128 + SIGTERM) << run.output;
}

}  // namespace
}  // namespace flashbert::testing
