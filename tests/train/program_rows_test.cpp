#include <gtest/gtest.h>

#include <functional>

#include "data/shard_reader.h"
#include "data/shard_writer.h"
#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSeqLen = 128;
constexpr std::int64_t kPredictions = 20;

/// A shard whose row i is `choose(samples, i)` of a synthetic shard's samples.
using Choose = std::function<SampleView(const SampleStore&, std::int64_t)>;
fs::path shard_of(const std::string& name, std::int64_t rows, const Choose& choose) {
  const fs::path folder = work_folder() / name;
  fs::create_directories(folder);
  const SampleStore samples = read_shard(inspect_shard(list_shards(small_data() / "train").front()), {});
  SampleStore store;
  for (std::int64_t i = 0; i < rows; ++i) store.append(choose(samples, i));
  write_shard(folder / "part.hdf5", store, {0, rows},
              {.layout = WrittenLayout::kFixed, .seq_len = kSeqLen, .max_predictions = kPredictions});
  return folder;
}

std::string model_run(const fs::path& data) {
  return fmt::format(
      "--layers 2 --hidden 64 --heads 2 --intermediate 128 --vocab 1024 --max-positions 128 --train-data {} --lr 1e-3 --seed 7",
      data.string());
}

double first_loss(const TrainedRun& run) {
  const auto steps = run.step_metrics();
  EXPECT_FALSE(steps.empty()) << run.output;
  return steps.empty() ? 0.0 : steps[0]["loss"].get<double>();
}

TEST(ProgramDropout, RanksAndMicroBatchesWithEqualRowsDropDifferentNeurons) {
  const fs::path data = shard_of("equal-rows", 8, [](const SampleStore& samples, std::int64_t) { return samples[0]; });
  const std::string base = model_run(data) + " --precision f32 --micro-batch 1 --max-steps 1 --threads 1";
  for (const bool dropout : {true, false}) {
    const std::string options = base + (dropout ? "" : " --hidden-dropout 0 --attention-dropout 0");
    // The loss of two slots is the mean of both; the first alone is that of rank 0, or of the first micro-batch.
    const double slot0 = first_loss(train("one", options + " --global-batch 1"));
    const double ranks = first_loss(train("ranks", options + " --global-batch 2", mpirun(2)));
    const double accumulated = first_loss(train("accumulated", options + " --global-batch 2"));
    EXPECT_NEAR(ranks, accumulated, 1e-6 * slot0);
    if (dropout) {
      EXPECT_GT(std::abs(ranks - slot0), 1e-5 * slot0);  // ten times the rounding allowed below; random weights hardly differ in loss
    } else {
      EXPECT_NEAR(ranks, slot0, 1e-6 * slot0);
    }
  }
}

TEST(ProgramMasks, MoreSlotsThanTheConfigurationHasAreRefusedWithBothNumbersAndTheFile) {
  const fs::path data = shard_of("slots", 8, [](const SampleStore& samples, std::int64_t i) { return samples[i]; });
  const TrainedRun run = train("slots-run", model_run(data) + " --global-batch 8 --max-steps 1 --max-predictions 16");
  EXPECT_EQ(run.status, 3) << run.output;
  EXPECT_NE(run.output.find(fmt::format("{} has {} predictions a row, max-predictions is 16", (data / "part.hdf5").string(), kPredictions)),
            std::string::npos)
      << run.output;
}

TEST(ProgramMasks, MicroBatchesWithoutMaskAreCountedOverAllRanks) {
  const fs::path data = shard_of("rare-masks", 30, [](const SampleStore& samples, std::int64_t i) {
    SampleView sample = samples[i];
    if (i % 3 == 0) sample.masked_positions = sample.masked_positions.first(0);
    if (i % 3 == 0) sample.masked_labels = sample.masked_labels.first(0);
    return sample;
  });
  // Each row once, in steps of one row and of six on one and two ranks.
  for (const auto& [precision, global, launcher] :
       {std::tuple{"bf16", 1, std::string()}, {"f32", 6, std::string()}, {"f32", 6, mpirun(2)}}) {
    const TrainedRun run = train("masks",
                                 fmt::format("{} --precision {} --micro-batch 1 --max-steps {} --global-batch {} --threads 1",
                                             model_run(data), precision, 30 / global, global),
                                 launcher);
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_EQ(run.report()["micro_batches_without_mask"], 10) << precision << " " << global << " " << launcher;
    for (const auto& step : run.step_metrics()) EXPECT_TRUE(step["loss"].is_number() && step["grad_norm"].is_number()) << step;
  }
}

TEST(ProgramSpeed, TheReportedSpeedIsSamplesOverTheTimeOfTheStepsWhateverTheSplit) {
  // Rows filled to a quarter: the first 32 tokens of longer ones.
  const fs::path data = shard_of("quarter-rows", 32, [](const SampleStore& samples, std::int64_t i) {
    SampleView sample;
    for (std::int64_t row = 0, seen = 0; row < samples.size(); ++row) {
      if (samples[row].token_ids.size() < 32 || seen++ != i) continue;
      sample = samples[row];
      break;
    }
    sample.token_ids = sample.token_ids.first(32);
    sample.segment_ids = sample.segment_ids.first(32);
    std::size_t kept = 0;
    while (kept < sample.masked_positions.size() && sample.masked_positions[kept] < 32) ++kept;
    sample.masked_positions = sample.masked_positions.first(kept);
    sample.masked_labels = sample.masked_labels.first(kept);
    return sample;
  });
  for (const int micro : {32, 8}) {
    const TrainedRun run =
        train("speed", fmt::format("{} --global-batch 32 --micro-batch {} --max-steps 6 --save-every-steps 2", model_run(data), micro));
    ASSERT_EQ(run.status, 0) << run.output;
    const auto report = run.report();
    const auto steps = run.step_metrics();
    ASSERT_EQ(steps.size(), 6U);
    double seconds = 0.0;  // of the steps after the first
    for (std::size_t i = 1; i < steps.size(); ++i) seconds += steps[i]["step_s"].get<double>();
    // The same doubles are added in the same order, and divided once.
    EXPECT_NEAR(report["seq_per_s"].get<double>() * seconds, 5 * 32, 1e-9);
    EXPECT_NEAR(report["tokens_per_s"].get<double>() * seconds, 5 * 32 * 32, 1e-6);
    EXPECT_DOUBLE_EQ(report["filler_share"].get<double>(), 0.75);
    EXPECT_GT(report["time"]["saving_s"].get<double>(), 0.0);
  }
}

}  // namespace
}  // namespace flashbert::testing
