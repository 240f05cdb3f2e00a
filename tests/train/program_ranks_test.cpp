// What several ranks of the program share: the trajectory, both conventions, and a signal to any one of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "golden_tolerance.h"
#include "program_support.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

/// small_run's model.
const BertConfig kModel{.layers = 2, .hidden = 64, .heads = 2, .intermediate = 128, .vocab = 1024, .max_positions = 128, .type_vocab = 2};

GoldenTolerance tolerance_after(double tokens, int updates) {
  return golden_tolerance(kModel, tokens, unit_roundoff(Dtype::kF32), updates);
}

TEST(ProgramRanks, TwoAndFourRanksFollowOneRankForTwentyStepsToTheRoundingOfReorderedSums) {
  // Equal micro-batches, so that ranks differ in nothing but who adds their gradients.
  const std::string options =
      small_run(small_data()) + " --max-steps 20 --threads 1 --micro-batch 4 --eval-at-start --eval-every-samples 160";
  const TrainedRun one = train("one", options);
  const auto wanted = one.metrics();
  for (const int ranks : {2, 4}) {
    SCOPED_TRACE(ranks);
    const TrainedRun many = train(fmt::format("many{}", ranks), options, mpirun(ranks));
    ASSERT_TRUE(many.report().contains("digest")) << many.output;
    EXPECT_EQ(many.report()["ranks"], ranks);
    const auto got = many.metrics();
    ASSERT_EQ(got.size(), wanted.size());
    int evaluations = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      for (const char* const key : {"step", "samples", "tokens", "masked", "lr", "eval_samples", "eval_masked"}) {
        if (wanted[i].contains(key)) {
          EXPECT_EQ(got[i][key], wanted[i][key]) << key;
        }
      }
      if (wanted[i].contains("eval_accuracy")) {
        // The same start weights; later ones differ by rounding, which may turn a close decision.
        if (evaluations++ == 0) {
          EXPECT_EQ(got[i]["eval_correct"], wanted[i]["eval_correct"]);
        }
        EXPECT_EQ(got[i]["eval_accuracy"].get<double>(), got[i]["eval_correct"].get<double>() / got[i]["eval_masked"].get<double>());
        continue;
      }
      const auto step = wanted[i]["step"].get<int>();
      const GoldenTolerance tolerance = tolerance_after(wanted[i]["tokens"].get<double>(), step);
      for (const char* const key : {"mlm_loss", "nsp_loss"}) {
        const double value = wanted[i][key].get<double>();
        EXPECT_NEAR(got[i][key].get<double>(), value, (tolerance.loss + tolerance.weights) * value) << key << " of step " << step;
      }
    }
    EXPECT_EQ(evaluations, 3);
  }
}

TEST(ProgramRanks, TheReferencesConventionsMeanMicroBatchesOnWhateverRank) {
  for (const std::string convention :
       {"--loss-normalisation per-rank --clip before-reduce", "--loss-normalisation per-rank --clip after-reduce",
        "--loss-normalisation global --clip before-reduce"}) {
    SCOPED_TRACE(convention);
    // A clip limit that is at work.
    const std::string options =
        small_run(small_data()) + " --max-steps 3 --threads 1 --micro-batch 8 --clip-norm 0.5 --target-accuracy 0 " + convention;
    const auto wanted = train("alone", options).step_metrics();
    const auto got = train("together", options, mpirun(2)).step_metrics();
    ASSERT_EQ(wanted.size(), 3U);
    ASSERT_EQ(got.size(), 3U);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const GoldenTolerance tolerance = tolerance_after(wanted[i]["tokens"].get<double>(), static_cast<int>(i));
      for (const auto& [key, relative] :
           {std::pair{"loss", tolerance.loss + tolerance.weights}, {"grad_norm", tolerance.gradient + tolerance.weights}}) {
        const double value = wanted[i][key].get<double>();
        EXPECT_NEAR(got[i][key].get<double>(), value, relative * value) << key << " of step " << i;
      }
    }
  }
}

TEST(ProgramRanks, TheTraceNumbersTheSlotsOfTheGlobalBatchWhateverTheMicroBatches) {
  const fs::path trace = work_folder() / "slots.trace";
  const TrainedRun run = train(
      "slots", small_run(small_data()) + " --max-steps 3 --threads 1 --micro-batch 4 --target-accuracy 0 --trace-samples " + trace.string(),
      mpirun(2));
  ASSERT_EQ(run.status, 0) << run.output;
  std::ifstream lines(trace);
  std::int64_t count = 0;
  std::int64_t step = -1, slot = -1, rank = -1, row = -1;
  for (std::string shard; lines >> step >> slot >> rank >> shard >> row; ++count) {
    EXPECT_EQ(step, count / 16);
    EXPECT_EQ(slot, count % 16);
    EXPECT_EQ(rank, slot / 8);  // two micro-batches of four a rank
  }
  EXPECT_EQ(count, 3 * 16);
}

TEST(ProgramRanks, ASignalToAnyOneOfThreeEndsAllAfterTheSameStep) {
  const fs::path script = work_folder() / "signal_one.sh";
  // Waits until the trace shows a step, then signals its own rank only.
  std::ofstream(script) << R"(trace="$1" signalled="$2"; shift 2
if [ "$OMPI_COMM_WORLD_RANK" != "$signalled" ]; then exec "$@"; fi
"$@" & child=$!
while [ ! -s "$trace" ] && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
kill -TERM "$child"
wait "$child"
)";
  for (const int rank : {0, 2}) {
    SCOPED_TRACE(rank);
    const fs::path trace = work_folder() / fmt::format("signalled{}.trace", rank);
    std::string options = small_run(small_data()) + " --max-steps 100000000 --threads 1 --save-at-end --trace-samples " + trace.string();
    options.replace(options.find("--global-batch 16"), 17, "--global-batch 12");
    const TrainedRun run = train(fmt::format("signalled{}", rank), options,
                                 fmt::format("timeout -k 5 100 {} bash {} {} {}", mpirun(3), script.string(), trace.string(), rank));
    ASSERT_EQ(run.status, 6) << run.output;
    run.expect_one_stop("aborted");
    const auto steps = run.report()["steps"].get<std::int64_t>();
    EXPECT_EQ(std::ssize(run.step_metrics()), steps);
    EXPECT_TRUE(fs::exists(run.out / fmt::format("checkpoints/step-{:08d}", steps)));
  }
}

}  // namespace
}  // namespace flashbert::testing
