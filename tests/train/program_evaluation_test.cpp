// What the program tells of an evaluation, on one rank and on several: the golden figures of double precision.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "golden_tolerance.h"
#include "program_support.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

nlohmann::json steps_of(const fs::path& folder) { return read_json(folder / "steps.json"); }

/// Micro-batches of three, so that most ranks have a last one that is not full.
CommandResult evaluate(const fs::path& folder, int ranks, const std::string& options) {
  return run_command(
      fmt::format("{0} {1} eval --model {2}/config.json --init {2}/init.safetensors --eval-data {2}/shard_fixed "
                  "--precision f32 --threads 1 --micro-batch 3 {3} 2>/dev/null",
                  ranks > 1 ? mpirun(ranks) : "", FLASHBERT_PROGRAM, folder.string(), options));
}

void expect_near(const nlohmann::json& got, double want) { EXPECT_NEAR(got.get<double>(), want, GoldenTolerance{}.loss * want); }

class ProgramGoldenEvaluation : public ::testing::TestWithParam<const char*> {};

TEST_P(ProgramGoldenEvaluation, EveryFigureIsThatOfDoublePrecisionOnOneTwoAndThreeRanks) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, GetParam());
  const auto want = steps_of(folder)["f64"]["steps"][0];
  const std::int64_t samples = std::string(GetParam()) == "tiny" ? 16 : 8;
  const auto correct = want["mlm_correct"].get<std::int64_t>();
  const auto masked = want["mlm_total"].get<std::int64_t>();
  ASSERT_GT(correct, 0);
  for (const int ranks : {1, 2, 3}) {
    SCOPED_TRACE(ranks);
    const CommandResult run = evaluate(folder, ranks, "--json");
    ASSERT_EQ(run.status, 0) << run.output;
    const auto got = nlohmann::json::parse(run.output);
    EXPECT_EQ(got["correct"], correct);
    EXPECT_EQ(got["masked"], masked);
    EXPECT_EQ(got["samples"], samples);
    EXPECT_EQ(got["accuracy"].get<double>(), static_cast<double>(correct) / static_cast<double>(masked));
    EXPECT_EQ(got["nsp_accuracy"].get<double>(), want["nsp_correct"].get<double>() / static_cast<double>(samples));
    expect_near(got["mlm_loss"], want["mlm_loss"].get<double>());
    expect_near(got["nsp_loss"], want["nsp_loss"].get<double>());
  }
  const CommandResult told = evaluate(folder, 1, "");
  EXPECT_NE(told.output.find(fmt::format("({} of {} masked tokens in {} samples)", correct, masked, samples)), std::string::npos)
      << told.output;
}
INSTANTIATE_TEST_SUITE_P(Models, ProgramGoldenEvaluation, ::testing::Values("small", "tiny", "deep"),
                         [](const auto& test) { return std::string(test.param); });

TEST(ProgramEvaluation, EvalSamplesTakesTheFirstOnesAlsoWhereRanksShareThemUnevenly) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, "tiny");
  const auto rows = steps_of(folder)["samples_f64"];
  constexpr std::size_t kSamples = 7;
  std::int64_t correct = 0;
  std::int64_t masked = 0;
  double mlm = 0.0;
  double nsp = 0.0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    correct += rows[i]["mlm_correct"].get<std::int64_t>();
    masked += rows[i]["predictions"].get<std::int64_t>();
    mlm += rows[i]["mlm_nll_sum"].get<double>();
    nsp += rows[i]["nsp_nll"].get<double>();
  }
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const CommandResult run = evaluate(folder, ranks, fmt::format("--json --eval-samples {}", kSamples));
    ASSERT_EQ(run.status, 0) << run.output;
    const auto got = nlohmann::json::parse(run.output);
    EXPECT_EQ(got["correct"], correct);
    EXPECT_EQ(got["masked"], masked);
    EXPECT_EQ(got["samples"], kSamples);
    expect_near(got["mlm_loss"], mlm / static_cast<double>(masked));
    expect_near(got["nsp_loss"], nsp / static_cast<double>(kSamples));
  }
}

/// All samples of the small golden in each step, so that the k-th evaluation is that of its weights after k updates.
std::string small_training(const fs::path& folder) {
  return fmt::format(
      "--model {0}/config.json --hidden-dropout 0 --attention-dropout 0 --train-data {0}/shard_fixed --eval-data {0}/shard_fixed "
      "--global-batch 8 --micro-batch 2 --lr 0.01 --lr-total-steps 7 --warmup-steps 2 --start-warmup-step -1 --seed 1 --precision f32 "
      "--threads 1 --eval-every-samples 8 --target-accuracy 1",
      folder.string());
}

TEST(ProgramEvaluation, EveryPointOfATrainingTellsTheGoldenCountsInEveryPlace) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, "small");
  const auto steps = steps_of(folder)["f64"]["steps"];
  constexpr std::size_t kUpdates = 4;
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string options =
        fmt::format("{} --init {}/init.safetensors --max-steps {} --eval-at-start", small_training(folder), folder.string(), kUpdates);
    const TrainedRun run = train(fmt::format("points{}", ranks), options, ranks > 1 ? mpirun(ranks) : "");
    ASSERT_EQ(run.status, 1) << run.output;  // the target is out of reach
    auto points = run.metrics();
    std::erase_if(points, [](const nlohmann::json& line) { return !line.contains("eval_accuracy"); });
    const auto logged = run.log("eval_accuracy");
    const auto curve = run.report()["curve"];
    ASSERT_EQ(points.size(), kUpdates + 1);
    ASSERT_EQ(logged.size(), kUpdates + 1);
    ASSERT_EQ(curve.size(), kUpdates + 1);
    for (std::size_t k = 0; k <= kUpdates; ++k) {
      SCOPED_TRACE(fmt::format("after {} updates", k));
      const auto correct = steps[k]["mlm_correct"].get<std::int64_t>();
      const auto masked = steps[k]["mlm_total"].get<std::int64_t>();
      ASSERT_GT(correct, 0);
      const double accuracy = static_cast<double>(correct) / static_cast<double>(masked);
      EXPECT_EQ(points[k]["eval_correct"], correct);
      EXPECT_EQ(points[k]["eval_masked"], masked);
      EXPECT_EQ(points[k]["eval_samples"], 8);
      EXPECT_EQ(points[k]["samples"], 8 * k);
      EXPECT_EQ(points[k]["eval_accuracy"].get<double>(), accuracy);
      EXPECT_EQ(logged[k]["value"].get<double>(), accuracy);
      EXPECT_EQ(curve[k]["samples"], 8 * k);
      EXPECT_EQ(curve[k]["accuracy"].get<double>(), accuracy);
      const std::string line = fmt::format("evaluation at {} samples: masked-LM accuracy {:.4f} ({} of {}), next-sentence accuracy {:.4f}",
                                           8 * k, accuracy, correct, masked, steps[k]["nsp_correct"].get<double>() / 8.0);
      EXPECT_NE(run.output.find(line), std::string::npos) << line;
    }
    EXPECT_EQ(run.report()["accuracy"], curve[kUpdates]["accuracy"]);
  }
}

TEST(ProgramRanks, ARankWhoseWeightsDifferInOneBitEndsTheRunAtTheNextEvaluation) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, "small");
  // Equal settings, since --init is a relative path, but each rank has a folder and a file of its own.
  const fs::path folders = work_folder() / "drift";
  const fs::path own = folders / "0/init.safetensors";
  const fs::path other = folders / "1/init.safetensors";
  const auto start = [&](const fs::path& out) {
    const std::string program = fmt::format("{} train --out {} --overwrite {} --init init.safetensors --max-steps 3", FLASHBERT_PROGRAM,
                                            out.string(), small_training(folder));
    return run_command(fmt::format("{} --wdir {} {} : -np 1 --wdir {} {} 2>&1", mpirun(1), own.parent_path().string(), program,
                                   other.parent_path().string(), program));
  };
  for (const fs::path& file : {own, other}) {
    fs::create_directories(file.parent_path());
    fs::copy_file(folder / "init.safetensors", file, fs::copy_options::overwrite_existing);
  }
  const CommandResult equal = start(work_folder() / "equal");
  EXPECT_EQ(equal.status, 1) << equal.output;  // trained; the target is out of reach

  // The lowest bit of the mantissa of the first stored weight.
  std::fstream bytes(other, std::ios::in | std::ios::out | std::ios::binary);
  std::uint64_t header = 0;
  bytes.read(reinterpret_cast<char*>(&header), sizeof header);
  const auto first = static_cast<std::streamoff>(sizeof header + header);
  bytes.seekg(first);
  const int byte = bytes.get();
  bytes.seekp(first);
  bytes.put(static_cast<char>(byte ^ 1));
  bytes.close();

  const TrainedRun drifted{.status = -1, .output = {}, .out = work_folder() / "drifted"};
  const CommandResult run = start(drifted.out);
  EXPECT_EQ(run.status, 4) << run.output;
  EXPECT_NE(run.output.find("the ranks hold different weights after step 1"), std::string::npos) << run.output;
  drifted.expect_one_stop("aborted");
  EXPECT_TRUE(drifted.log("eval_accuracy").empty());
}

}  // namespace
}  // namespace flashbert::testing
