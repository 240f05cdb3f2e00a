#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "data/shard_reader.h"
#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// Runs what follows with files that cannot grow above this size: to a writer, a full disk.
std::string small_disk(int kibibytes) { return fmt::format("bash -c 'trap \"\" XFSZ; ulimit -f {}; exec \"$@\"' small_disk", kibibytes); }

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(ProgramFaults, ANanStopsTheRunAndNamesStepAndTensor) {
  // A rate of a million multiplies the weights by about that each step until products overflow.
  const TrainedRun run = train("nan", small_run(small_data()) + " --lr 1e6 --max-steps 100 --save-at-end");
  EXPECT_EQ(run.status, 1) << run.output;
  run.expect_one_stop("aborted");
  const std::size_t last = run.step_metrics().back()["step"];
  EXPECT_LT(last, 99U);
  EXPECT_NE(run.output.find(fmt::format("step {}: the ", last)), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("is not finite"), std::string::npos) << run.output;
  EXPECT_EQ(run.report()["status"], "aborted");
  EXPECT_FALSE(fs::exists(run.out / "checkpoints"));  // weights that a NaN may have touched are not saved
}

TEST(ProgramFaults, ABadRowFoundInTheRunEndsTheLog) {
  const fs::path data = work_folder() / "bad-rows";
  fs::create_directories(data);
  fs::copy(small_data() / "train", data / "train", fs::copy_options::recursive);
  fs::copy(small_data() / "eval", data / "eval", fs::copy_options::recursive);
  // The header of this shard is good; its token ids reach beyond the model's vocabulary.
  const fs::path wide = synth_data("--vocab 2048 --samples 64 --shards 1");
  fs::copy_file(list_shards(wide / "train").front(), data / "train/part_99.hdf5");
  const TrainedRun run = train("bad-rows-run", small_run(data) + " --max-steps 1000");
  EXPECT_EQ(run.status, 3) << run.output;
  run.expect_one_stop("aborted");
  EXPECT_NE(run.output.find("part_99.hdf5"), std::string::npos) << run.output;
}

TEST(ProgramFaults, MetricsThatDoNotFitTheDiskEndTheRunWithAWholeLog) {
  // A line a step of some 230 bytes, in the file at each evaluation; the log of so small a model takes a quarter of the limit.
  const TrainedRun run = train("full-metrics",
                               small_run(small_data()) +
                                   " --layers 1 --hidden 16 --intermediate 16 --threads 1 --max-steps 2000 "
                                   "--eval-every-samples 640 --eval-samples 16 --target-accuracy 1",
                               small_disk(64));
  EXPECT_EQ(run.status, 4) << run.output;
  run.expect_one_stop("aborted");
  EXPECT_NE(run.output.find("cannot write to " + (run.out / "metrics.jsonl").string()), std::string::npos) << run.output;
}

TEST(ProgramFaults, ACheckpointThatDoesNotFitTheDiskLeavesNoHalf) {
  for (const std::string option : {"--save-every-steps 2", "--save-at-end"}) {
    const TrainedRun run = train("full-save", small_run(small_data()) + " --max-steps 4 " + option, small_disk(64));
    EXPECT_EQ(run.status, 4) << run.output;
    run.expect_one_stop("aborted");
    EXPECT_NE(run.output.find("model.safetensors"), std::string::npos) << run.output;
    EXPECT_TRUE(names_in(run.out / "checkpoints").empty()) << names_in(run.out / "checkpoints").front();
    EXPECT_FALSE(run.step_metrics().empty());
    EXPECT_EQ(fs::exists(run.out / "report.json"), option == "--save-at-end");  // the run had its verdict before the save
  }
}

TEST(ProgramFaults, ABadEvaluationRowOnOneRankEndsTheLogOfAll) {
  // The second of two ranks reads the second half of the evaluation set, whose token ids reach beyond the model's vocabulary.
  const fs::path data = work_folder() / "bad-eval";
  fs::create_directories(data / "eval");
  fs::copy(small_data() / "train", data / "train", fs::copy_options::recursive);
  fs::copy_file(*list_shards(small_data() / "eval").begin(), data / "eval/part_0.hdf5");
  fs::copy_file(*list_shards(synth_data("--vocab 2048 --samples 64 --eval-samples 200 --shards 1") / "eval").begin(),
                data / "eval/part_1.hdf5");
  const TrainedRun run = train("bad-eval-run", small_run(data) + " --max-steps 20 --threads 1", mpirun(2));
  EXPECT_EQ(run.status, 3) << run.output;
  run.expect_one_stop("aborted");
  EXPECT_NE(run.output.find("part_1.hdf5"), std::string::npos) << run.output;
}

TEST(ProgramFaults, OverwritingRemovesNothingBeforeTheInputIsKnownToFit) {
  const TrainedRun first = train("precious", small_run(small_data()) + " --max-steps 2 --save-at-end");
  const fs::path saved = first.out / "checkpoints/step-00000002";
  ASSERT_TRUE(fs::exists(saved / "model.safetensors")) << first.output;
  const TrainedRun typo = train("precious", "--train-data /no/such/data --max-steps 2");
  EXPECT_EQ(typo.status, 3);
  const TrainedRun unfit = train("precious", small_run(small_data()) + " --max-steps 2 --layers 3 --init " + saved.string());
  EXPECT_EQ(unfit.status, 2) << unfit.output;
  const TrainedRun own = train("precious", small_run(small_data()) + " --max-steps 2 --init " + saved.string());
  EXPECT_EQ(own.status, 2) << own.output;
  EXPECT_NE(own.output.find("--overwrite would remove " + saved.string()), std::string::npos) << own.output;
  EXPECT_TRUE(fs::exists(saved / "model.safetensors"));
  EXPECT_EQ(first.report()["steps"], 2);
}

TEST(ProgramFaults, AStartThatFailedLeavesTheFolderToTheNext) {
  const fs::path out = work_folder() / "corrected";
  const std::string command = fmt::format("{} train --out {} {} --max-steps 1", FLASHBERT_PROGRAM, out.string(), small_run(small_data()));
  EXPECT_EQ(run_command(command + " --train-data /no/such/data 2>&1").status, 3);
  EXPECT_EQ(run_command(command + " --init /no/such/checkpoint 2>&1").status, 3);
  const CommandResult run = run_command(command + " 2>&1");
  EXPECT_EQ(run.status, 1) << run.output;  // trained; below the target
}

TEST(ProgramFaults, RanksWithDifferentKernelsAreRefused) {
  const std::string program = fmt::format("{} train --out {} --overwrite {} --max-steps 1 --threads 1", FLASHBERT_PROGRAM,
                                          (work_folder() / "mixed").string(), small_run(small_data()));
  const CommandResult run = run_command(fmt::format("{} -x FLASHBERT_MAX_ISA=avx2 {} : -np 1 {} 2>&1", mpirun(1), program, program));
  if (run.output.find("instruction set avx2") != std::string::npos && run.status == 1) {
    GTEST_SKIP() << "this processor has nothing above AVX2";
  }
  EXPECT_EQ(run.status, 4) << run.output;
  EXPECT_NE(run.output.find("different instruction sets"), std::string::npos) << run.output;
}

TEST(ProgramEval, TakesTheModelFromTheCheckpointsFolderAndRefusesWeightsThatAreNoNumbers) {
  const TrainedRun run = train("evaluated", small_run(small_data()) + " --max-steps 2 --save-at-end");
  const fs::path saved = run.out / "checkpoints/step-00000002";
  const std::string evaluate =
      fmt::format("{} eval --eval-data {}/eval --json --precision f32 --init ", FLASHBERT_PROGRAM, small_data().string());
  const CommandResult good = run_command(evaluate + saved.string() + " 2>/dev/null");
  ASSERT_EQ(good.status, 0);
  EXPECT_EQ(nlohmann::json::parse(good.output)["accuracy"], run.report()["accuracy"]);

  // The same weights with the first of them a NaN.
  const fs::path spoilt = work_folder() / "spoilt";
  fs::copy(saved, spoilt, fs::copy_options::recursive);
  std::fstream file(spoilt / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header = 0;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  file.seekp(static_cast<std::streamoff>(sizeof header + header));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 64 * 1024; ++i) file.write(reinterpret_cast<const char*>(&nan), sizeof nan);
  file.close();
  const CommandResult bad = run_command(evaluate + spoilt.string() + " 2>&1");
  EXPECT_EQ(bad.status, 1) << bad.output;
  EXPECT_NE(bad.output.find("not finite"), std::string::npos) << bad.output;
}

TEST(ProgramSchedule, WithoutALimitARunEndsWhereTheRateIsZero) {
  const TrainedRun run = train("no-limit", small_run(small_data()) + " --lr-total-steps 3 --target-accuracy 0.99");
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_EQ(run.report()["steps"], 3);
  EXPECT_NE(run.report()["reason"].get<std::string>().find("lr-total-steps 3 reached"), std::string::npos);
  run.expect_one_stop("aborted");
}

TEST(ProgramEnds, TheClosedDivisionCountsNoEvaluationOffTheSchedule) {
  const std::string options = small_run(small_data()) + " --max-steps 2 --target-accuracy 0 ";
  EXPECT_EQ(train("open-limit", options).status, 0);
  const TrainedRun closed = train("closed-limit", options +
                                                      "--submission-division closed --submission-org example "
                                                      "--submission-status research --submission-platform cpu");
  EXPECT_EQ(closed.status, 1) << closed.output;
  closed.expect_one_stop("aborted");
}

TEST(ProgramSchedule, TheLoggedRateIsTheOneOfItsStep) {
  struct Row {
    int start;
    std::vector<double> rates;
  };
  for (const Row& row : {Row{0, {0, .25, .5, .75, .6, .5, .4, .3, .2, .1}}, Row{-2, {.5, .75, .8, .7, .6, .5, .4, .3, .2, .1}}}) {
    const TrainedRun run = train("rates", small_run(small_data()) + fmt::format(" --lr 1e-3 --lr-total-steps 10 --warmup-steps 4 "
                                                                                "--start-warmup-step {} --max-steps 10",
                                                                                row.start));
    const auto steps = run.step_metrics();
    ASSERT_EQ(steps.size(), row.rates.size()) << run.output;
    for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_NEAR(steps[i]["lr"].get<double>(), 1e-3 * row.rates[i], 1e-3 * 1e-7) << i;
  }
}

}  // namespace
}  // namespace flashbert::testing
