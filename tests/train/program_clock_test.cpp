// What happens before the clock starts, while it runs, and after it has stopped.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// What the program did, in order: words of a line of call_order.
struct Call {
  std::string kind, what;
  std::int64_t bytes = 0;
};

std::vector<Call> calls_of(const fs::path& path) {
  std::vector<Call> calls;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Call call;
    words >> call.kind;
    if (call.kind == "read") words >> call.bytes;
    words >> call.what;
    calls.push_back(call);
  }
  return calls;
}

std::size_t place_of(const std::vector<Call>& calls, const std::string& kind, const std::string& what) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].kind == kind && calls[i].what.find(what) != std::string::npos) return i;
  }
  ADD_FAILURE() << "no " << kind << " of " << what << " in " << calls.size() << " calls";
  return calls.size();
}

std::int64_t bytes_read(const std::vector<Call>& calls, std::size_t begin, std::size_t end, const std::string& folder) {
  std::int64_t bytes = 0;
  for (std::size_t i = begin; i < end; ++i) bytes += calls[i].what.find(folder) != std::string::npos ? calls[i].bytes : 0;
  return bytes;
}

class ProgramClock : public ::testing::Test {
 protected:
  /// A run whose calls are listed. Sanitizers want to be loaded first, and need not be.
  TrainedRun listed_run(const std::string& name, const std::string& options) {
    const fs::path list = work_folder() / (name + ".calls");
    const TrainedRun run = train(name, options,
                                 fmt::format("env CALL_ORDER={} LD_PRELOAD={} ASAN_OPTIONS=\"$ASAN_OPTIONS:verify_asan_link_order=0\"",
                                             list.string(), FLASHBERT_CALL_ORDER));
    calls_ = calls_of(list);
    return run;
  }
  std::vector<Call> calls_;
};

TEST_F(ProgramClock, NothingButHeadersIsReadBeforeRunStart) {
  // Samples are stored row by row without compression, so that they cannot hide in the few bytes of a header.
  const fs::path data = synth_data("--samples 1500 --eval-samples 1500 --shards 1 --layout fixed-int32");
  const TrainedRun run = listed_run("clock-reads", small_run(data) + " --max-steps 1");
  ASSERT_EQ(run.status, 1) << run.output;
  const std::size_t run_start = place_of(calls_, "record", "run_start");
  for (const std::string folder : {"/train/", "/eval/"}) {
    // 1500 rows of 128 ids of four bytes; the headers of six data sets are a few hundred bytes each, read in blocks.
    const std::int64_t ids = 1500 * 128 * 4;
    EXPECT_LT(bytes_read(calls_, 0, run_start, folder), ids / 16) << folder;
    EXPECT_GE(bytes_read(calls_, run_start, calls_.size(), folder), ids) << folder;
  }
}

TEST_F(ProgramClock, EvaluationsAndSavesOnTheWayAreInsideTheRunAndTheLastSaveIsAfterIt) {
  const TrainedRun run = listed_run("clock-saves", small_run(small_data()) +
                                                       " --max-steps 3 --save-every-steps 2 --save-at-end --eval-every-samples 16 "
                                                       "--eval-samples 20 --target-accuracy 0.99");
  ASSERT_EQ(run.status, 1) << run.output;
  const std::size_t run_start = place_of(calls_, "record", "run_start");
  const std::size_t run_stop = place_of(calls_, "record", "run_stop");
  const std::size_t on_the_way = place_of(calls_, "rename", "checkpoints/step-00000002");
  EXPECT_GT(on_the_way, run_start);
  EXPECT_LT(on_the_way, run_stop);
  EXPECT_GT(place_of(calls_, "rename", "checkpoints/step-00000003"), run_stop);
  std::size_t evaluations = 0;
  for (std::size_t i = run_start; i < run_stop; ++i) evaluations += calls_[i].what == "eval_accuracy" ? 1 : 0;
  EXPECT_EQ(evaluations, 3U);
}

TEST(ProgramSpeed, TheTimeOfTheStepsIsThatOfTheRun) {
  // Steps of some 100 ms, and nothing else between run_start and run_stop that takes time.
  const TrainedRun run =
      train("step-time", fmt::format("--layers 2 --hidden 128 --heads 2 --intermediate 512 --vocab 1024 --max-positions 128 "
                                     "--train-data {}/train --global-batch 64 --max-steps 6 --precision f32 --seed 3",
                                     small_data().string()));
  ASSERT_EQ(run.status, 0) << run.output;
  const auto report = run.report();
  const auto run_s = report["run_s"].get<double>();
  const auto steps_s = report["time"]["steps_s"].get<double>();
  const auto first_s = report["time"]["first_step_s"].get<double>();
  EXPECT_LE(steps_s, run_s);
  // What is outside of steps is a handful of lines of text, and a busy machine takes its share of both: the bound leaves a stall of half
  // the steps' time, and still tells steps that were timed by half.
  EXPECT_GE(steps_s, 0.6 * run_s);
  EXPECT_LE(first_s, run_s - (steps_s - run.step_metrics()[0]["step_s"].get<double>()));
}

}  // namespace
}  // namespace flashbert::testing
