// Evaluation of golden weights: the counts that PyTorch found in double precision.
#include <gtest/gtest.h>

#include "support/shared_data.h"
#include "support/thread_ranks.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

TrainingFixture::Options golden_options(const std::filesystem::path& folder, std::int64_t samples) {
  return {.model = read_hugging_face_config(folder / "config.json", nullptr),
          .optimizer = {.lr = 0.01, .lr_total_steps = 7, .warmup_steps = 2, .start_warmup_step = -1},
          .data = folder / "shard_fixed",
          .global_batch = samples,
          .micro_batch = samples};
}

void expect_counts(const EvaluationResult& got, const nlohmann::json& want, std::int64_t samples, int step) {
  SCOPED_TRACE(fmt::format("after {} steps", step));
  const auto total = want["mlm_total"].get<std::int64_t>();
  const auto correct = want["mlm_correct"].get<std::int64_t>();
  EXPECT_EQ(got.correct, correct);
  EXPECT_EQ(got.masked, total);
  EXPECT_EQ(got.samples, samples);
  EXPECT_EQ(got.accuracy, static_cast<double>(correct) / static_cast<double>(total));
  EXPECT_EQ(got.nsp_accuracy, want["nsp_correct"].get<double>() / static_cast<double>(samples));
  EXPECT_NEAR(got.mlm_loss, want["mlm_loss"].get<double>(), 1e-6 * want["mlm_loss"].get<double>());
  EXPECT_NEAR(got.nsp_loss, want["nsp_loss"].get<double>(), 1e-6 * want["nsp_loss"].get<double>());
}

class GoldenEvaluationOf : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenEvaluationOf, CountsAreThoseOfDoublePrecisionForAnyBatchBetweenSteps) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, GetParam());
  const auto steps = read_json(folder / "steps.json")["f64"]["steps"];
  const std::int64_t samples = std::string(GetParam()) == "tiny" ? 16 : 8;
  TrainingFixture fixture(golden_options(folder, samples));
  fixture.load(folder / "init.safetensors");
  for (int s = 0; s < 5; ++s) {
    const auto& want = steps[static_cast<std::size_t>(s)];
    ASSERT_GT(want["mlm_correct"], 0);
    for (const std::int64_t micro : {8, 3, 1}) {
      expect_counts(fixture.engine->evaluate(load_evaluation(fixture.data, 0, micro, 0, 1, {})), want, samples, s);
    }
    static_cast<void>(fixture.step());
  }
}
INSTANTIATE_TEST_SUITE_P(Models, GoldenEvaluationOf, ::testing::Values("small", "tiny", "deep"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GoldenEvaluation, CountsAreThoseOfDoublePrecisionOnAnyNumberOfRanks) {
  FLASHBERT_GOLDEN_OR_SKIP(folder, "small");
  const auto want = read_json(folder / "steps.json")["f64"]["steps"][0];
  const auto options = golden_options(folder, 8);
  for (const int size : {1, 2, 3}) {
    ThreadRanks ranks(size);
    ranks.run([&](Peers peers) {
      const DataSet data = open_data_set(options.data, options.model.max_positions);
      TrainSettings settings;
      settings.precision = Precision::kF32;
      settings.threads = 1;
      const Backend backend = make_backend(settings, peers.ranks);
      Engine engine({.model = options.model,
                     .optimizer = options.optimizer,
                     .compute = backend.compute,
                     .capacity = {.sequences = 3, .tokens = 3 * data.seq_len, .masked = 3 * data.max_predictions, .seq_len = data.seq_len},
                     .use = Parameters::Use::kInference,
                     .global_batch = 8},
                    *backend.ops, peers);
      load_checkpoint(folder / "init.safetensors", engine.model().parameters(), *backend.ops);
      expect_counts(engine.evaluate(load_evaluation(data, 0, 3, peers.ranks.rank(), size, {})), want, 8, 0);
    });
  }
}

}  // namespace
}  // namespace flashbert::testing
