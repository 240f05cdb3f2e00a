#include "golden_tolerance.h"
#include "program_support.h"
#include "support/shared_data.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 5;

struct ProgramCase {
  std::string folder, layout;
  std::int64_t samples, micro_batch;
};

/// What test lists show.
void PrintTo(const ProgramCase& c, std::ostream* out) { *out << c.folder << ", " << c.layout << ", micro-batch " << c.micro_batch; }

TrainedRun train_golden(const fs::path& folder, const ProgramCase& c, const std::string& precision, int steps) {
  return train(
      fmt::format("golden-{}-{}-{}-{}", c.folder, c.layout, c.micro_batch, precision),
      fmt::format("--model {0}/config.json --hidden-dropout 0 --attention-dropout 0 --init {0}/init.safetensors --train-data {0}/{1} "
                  "--global-batch {2} --micro-batch {3} --max-steps {4} --lr 0.01 --lr-total-steps 7 --warmup-steps 2 "
                  "--start-warmup-step -1 --seed 1 --precision {5} --save-at-end",
                  folder.string(), c.layout, c.samples, c.micro_batch, steps, precision));
}

class ProgramGolden : public ::testing::TestWithParam<ProgramCase> {};

TEST_P(ProgramGolden, FiveStepsInF32AreThoseOfDoublePrecision) {
  const ProgramCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  const TrainedRun run = train_golden(folder, c, "f32", kSteps);
  ASSERT_EQ(run.status, 0) << run.output;
  const auto want = read_json(folder / "steps.json")["f64"]["steps"];
  const auto got = run.step_metrics();
  ASSERT_EQ(got.size(), static_cast<std::size_t>(kSteps));
  const GoldenTolerance tolerance = golden_tolerance(read_hugging_face_config(folder / "config.json", nullptr),
                                                     got[0]["tokens"].get<double>(), unit_roundoff(Dtype::kF32), kSteps);
  for (std::size_t s = 0; s < kSteps; ++s) {
    SCOPED_TRACE(fmt::format("step {}", s));
    for (const auto& [key, wanted, relative] : {std::tuple{"mlm_loss", "mlm_loss", tolerance.loss},
                                                {"nsp_loss", "nsp_loss", tolerance.loss},
                                                {"lr", "learning_rate", 1e-7},
                                                {"grad_norm", "grad_norm", tolerance.gradient * static_cast<double>(1 + s)}}) {
      const double value = want[s][wanted].get<double>();
      EXPECT_NEAR(got[s][key].get<double>(), value, relative * value) << key;
    }
  }

  const SafetensorsFile before(folder / "init.safetensors");
  const SafetensorsFile after(folder / "weights_after_5.safetensors");
  const SafetensorsFile saved(run.out / "checkpoints/step-00000005/model.safetensors");
  for (const std::string& name : after.names()) {
    if (name.ends_with("key.bias")) continue;  // no gradient in exact arithmetic: they move by rounding noise alone
    const auto wanted = read_doubles(after, name);
    const auto start = read_doubles(before, name);
    double change = 0.0;
    for (std::size_t k = 0; k < wanted.size(); ++k) change += (wanted[k] - start[k]) * (wanted[k] - start[k]);
    const double limit = tolerance.weights * std::sqrt(change) + unit_roundoff(Dtype::kF32) * l2(wanted);
    EXPECT_LE(l2_difference(saved.tensor(name), wanted), limit) << name;
  }
}

TEST_P(ProgramGolden, TheFirstStepInBf16StaysWithinItsRounding) {
  const ProgramCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  const TrainedRun run = train_golden(folder, c, "bf16", 1);
  ASSERT_EQ(run.status, 0) << run.output;
  if (run.report()["precision"] != "bf16") GTEST_SKIP() << "this processor has no products of bf16";
  const auto want = read_json(folder / "steps.json")["f64"]["steps"][0];
  const double relative = bf16_tolerance(read_hugging_face_config(folder / "config.json", nullptr));
  for (const char* const key : {"mlm_loss", "nsp_loss", "grad_norm"}) {
    EXPECT_NEAR(run.step_metrics()[0][key].get<double>(), want[key].get<double>(), relative * want[key].get<double>()) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, ProgramGolden,
                         ::testing::Values(ProgramCase{"small", "shard_fixed", 8, 8}, ProgramCase{"small", "shard_varlength", 8, 4},
                                           ProgramCase{"tiny", "shard_fixed", 16, 16}, ProgramCase{"tiny", "shard_fixed", 16, 1},
                                           ProgramCase{"tiny", "shard_varlength", 16, 16}, ProgramCase{"tiny", "shard_varlength", 16, 1},
                                           ProgramCase{"deep", "shard_fixed", 8, 8}, ProgramCase{"deep", "shard_fixed", 8, 1},
                                           ProgramCase{"deep", "shard_varlength", 8, 8}, ProgramCase{"deep", "shard_varlength", 8, 1}),
                         [](const auto& test) {
                           return fmt::format("{}_{}_micro{}", test.param.folder, test.param.layout, test.param.micro_batch);
                         });

}  // namespace
}  // namespace flashbert::testing
