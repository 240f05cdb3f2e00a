#include "golden_tolerance.h"
#include "support/shared_data.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

constexpr int kSteps = 5;

struct GoldenCase {
  std::string folder, layout;
  std::int64_t samples, micro_batch;
};

/// What test lists show.
void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.folder << ", " << c.layout << ", micro-batch " << c.micro_batch; }

OptimizerSettings golden_optimizer() { return {.lr = 0.01, .lr_total_steps = 7, .warmup_steps = 2, .start_warmup_step = -1}; }

BertConfig golden_model(const std::filesystem::path& folder) { return read_hugging_face_config(folder / "config.json", nullptr); }

/// Key biases have no gradient in exact arithmetic (softmax does not see them); what is left is the rounding of the sums that also make the
/// gradient of the keys' weights.
bool is_key_bias(const std::string& name) { return name.ends_with("key.bias"); }
std::string key_weight(const std::string& bias) { return bias.substr(0, bias.size() - 4) + "weight"; }

TrainingFixture::Options options_of(const std::filesystem::path& folder, const GoldenCase& c, Precision precision) {
  return {.model = golden_model(folder),
          .optimizer = golden_optimizer(),
          .data = folder / c.layout,
          .global_batch = c.samples,
          .micro_batch = c.micro_batch,
          .precision = precision};
}

class Golden : public ::testing::TestWithParam<GoldenCase> {};

void expect_gradients(TrainingFixture& fixture, const std::filesystem::path& folder, const GoldenTolerance& tolerance) {
  const SafetensorsFile file(folder / "grads.safetensors");
  const ParameterTable& table = fixture.parameters().table();
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const std::string& name = table.parameters()[i].name;
    const auto want = read_doubles(file, name);
    const double error = l2_difference(fixture.parameters().parameter_gradient(i), want);
    const double size = is_key_bias(name) ? l2(read_doubles(file, key_weight(name))) : l2(want);
    EXPECT_LE(error, tolerance.gradient * size) << name << ": relative " << error / size;
  }
}

TEST_P(Golden, FiveStepsInF32AreThoseOfDoublePrecision) {
  const GoldenCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  const auto document = read_json(folder / "steps.json");
  const auto& steps = document["f64"]["steps"];
  TrainingFixture fixture(options_of(folder, c, Precision::kF32));
  fixture.load(folder / "init.safetensors");
  const SafetensorsFile before(folder / "init.safetensors");
  const GoldenTolerance tolerance = golden_tolerance(golden_model(folder), golden_tokens(document), unit_roundoff(Dtype::kF32), kSteps);
  for (int s = 0; s < kSteps; ++s) {
    SCOPED_TRACE(fmt::format("step {}", s));
    const StepResult result = fixture.step();
    const auto& want = steps[static_cast<std::size_t>(s)];
    // After the first update the weights differ by their own tolerance, and the losses with them.
    EXPECT_NEAR(result.mlm_loss, want["mlm_loss"].get<double>(), tolerance.loss * want["mlm_loss"].get<double>());
    EXPECT_NEAR(result.nsp_loss, want["nsp_loss"].get<double>(), tolerance.loss * want["nsp_loss"].get<double>());
    EXPECT_NEAR(result.learning_rate, want["learning_rate"].get<double>(), 1e-7 * want["learning_rate"].get<double>());
    EXPECT_NEAR(result.gradient_norm, want["grad_norm"].get<double>(), tolerance.gradient * (1 + s) * want["grad_norm"].get<double>());
    if (s == 0) expect_gradients(fixture, folder, tolerance);
  }
  const SafetensorsFile after(folder / "weights_after_5.safetensors");
  const SafetensorsFile gradients(folder / "grads.safetensors");
  const ParameterTable& table = fixture.parameters().table();
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const std::string& name = table.parameters()[i].name;
    const auto want = read_doubles(after, name);
    const auto start = read_doubles(before, name);
    const double error = l2_difference(fixture.parameters().parameter_master(i), want);
    double change = 0.0;
    for (std::size_t k = 0; k < want.size(); ++k) change += (want[k] - start[k]) * (want[k] - start[k]);
    change = std::sqrt(change);
    // A key bias' update is its rounding noise over at least epsilon, times the rates, which add up to less than 0.04.
    const auto noise = [&] { return tolerance.gradient * l2(read_doubles(gradients, key_weight(name))); };
    const double limit = is_key_bias(name) ? 0.04 * noise() / 1e-6 : tolerance.weights * change;
    // The file itself may be rounded to f32.
    EXPECT_LE(error, limit + unit_roundoff(Dtype::kF32) * l2(want)) << name << ": error over change " << error / change;
  }
}

TEST_P(Golden, TrustRatiosAndNormsAreThoseOfDoublePrecision) {
  const GoldenCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  const auto document = read_json(folder / "steps.json");
  const auto& first = document["f64"]["steps"][0];
  ASSERT_EQ(first["tensors"].size(), ParameterTable(golden_model(folder)).parameters().size());
  TrainingFixture fixture(options_of(folder, c, Precision::kF32));
  fixture.load(folder / "init.safetensors");
  static_cast<void>(fixture.step());
  const GoldenTolerance tolerance = golden_tolerance(golden_model(folder), golden_tokens(document), unit_roundoff(Dtype::kF32), 1);
  const float* const ratios = fixture.engine->optimizer().trust_ratios().data<float>();
  const ParameterTable& table = fixture.parameters().table();
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const std::string& name = table.parameters()[i].name;
    const double want = first["tensors"][name]["ratio"].get<double>();
    EXPECT_NEAR(static_cast<double>(ratios[i]), want, 2.0 * tolerance.gradient * want) << name;
  }
}

TEST_P(Golden, Bf16StaysWithinItsRounding) {
  const GoldenCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  TrainingFixture fixture(options_of(folder, c, Precision::kBf16));
  if (fixture.backend.compute != Dtype::kBf16) GTEST_SKIP() << "this processor has no products of bf16";
  fixture.load(folder / "init.safetensors");
  const auto want = read_json(folder / "steps.json")["f64"]["steps"][0];
  const StepResult result = fixture.step();
  const double relative = bf16_tolerance(golden_model(folder));
  EXPECT_NEAR(result.loss, want["loss"].get<double>(), relative * want["loss"].get<double>());
  EXPECT_NEAR(result.gradient_norm, want["grad_norm"].get<double>(), relative * want["grad_norm"].get<double>());
  const SafetensorsFile file(folder / "grads.safetensors");
  const ParameterTable& table = fixture.parameters().table();
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const std::string& name = table.parameters()[i].name;
    if (is_key_bias(name)) continue;
    const auto gradient = read_doubles(file, name);
    // Small tensors deep in the backward pass see differences of large, nearly equal values: the error is measured against the
    // whole gradient where it is the larger.
    const double size = std::max(l2(gradient), 0.02 * want["grad_norm"].get<double>());
    EXPECT_LE(l2_difference(fixture.parameters().parameter_gradient(i), gradient), relative * size) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, Golden,
                         ::testing::Values(GoldenCase{"small", "shard_fixed", 8, 8}, GoldenCase{"small", "shard_varlength", 8, 2},
                                           GoldenCase{"small", "shard_fixed", 8, 1}, GoldenCase{"tiny", "shard_fixed", 16, 16},
                                           GoldenCase{"tiny", "shard_varlength", 16, 16}, GoldenCase{"tiny", "shard_fixed", 16, 1},
                                           GoldenCase{"tiny", "shard_varlength", 16, 4}, GoldenCase{"deep", "shard_fixed", 8, 8},
                                           GoldenCase{"deep", "shard_varlength", 8, 1}),
                         [](const auto& test) {
                           return fmt::format("{}_{}_micro{}", test.param.folder, test.param.layout, test.param.micro_batch);
                         });

TEST(GoldenSensitivity, TheTolerancesCatchEighteenOfTwentyPlantedMistakes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const auto folder = shared / "golden/tiny";
  const GoldenTolerance tolerance = golden_tolerance(golden_model(folder), 779.0, unit_roundoff(Dtype::kF32), kSteps);
  const auto rows = read_json(folder / "sensitivity.json");
  int caught = 0;
  std::vector<std::string> missed;
  for (const auto& [name, row] : rows["model"].items()) {
    if (name == "nothing changed") continue;
    const bool seen =
        row["loss_rel_change"].get<double>() > tolerance.loss || row["grad_norm_rel_change"].get<double>() > tolerance.gradient;
    seen ? static_cast<void>(++caught) : missed.push_back(name);
  }
  for (const auto& [name, row] : rows["lamb"].items()) {
    if (name == "nothing changed") continue;
    const bool seen = row["final_loss_rel_change"].get<double>() > tolerance.loss ||
                      row["weights_l2_error_over_change_worst"].get<double>() > tolerance.weights;
    seen ? static_cast<void>(++caught) : missed.push_back(name);
  }
  EXPECT_EQ(caught, 18) << fmt::format("{}", fmt::join(missed, "; "));
}

class GoldenSmallNorm : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(GoldenSmallNorm, ClippingDoesNothingBelowItsLimit) {
  const GoldenCase& c = GetParam();
  FLASHBERT_GOLDEN_OR_SKIP(folder, c.folder);
  const auto document = read_json(folder / "steps_small_norm.json");
  TrainingFixture fixture(options_of(folder, c, Precision::kF32));
  fixture.load(folder / "init.safetensors");
  Parameters& parameters = fixture.parameters();
  for (const auto& [name, factor] : document["factors"].items()) {
    const Tensor master = parameters.parameter_master(static_cast<std::size_t>(parameters.table().find(name)));
    for (std::int64_t k = 0; k < master.elements(); ++k) master.data<float>()[k] *= factor.get<float>();
  }
  parameters.refresh(*fixture.backend.ops);
  const double tokens = golden_tokens(read_json(folder / "steps.json"));
  const GoldenTolerance tolerance = golden_tolerance(golden_model(folder), tokens, unit_roundoff(Dtype::kF32), kSteps);
  for (int s = 0; s < kSteps; ++s) {
    const auto& want = document["f64"]["steps"][static_cast<std::size_t>(s)];
    const StepResult result = fixture.step();
    EXPECT_NEAR(result.loss, want["loss"].get<double>(), tolerance.loss * want["loss"].get<double>());
    EXPECT_NEAR(result.gradient_norm, want["grad_norm"].get<double>(), tolerance.gradient * (1 + s) * want["grad_norm"].get<double>());
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, GoldenSmallNorm,
                         ::testing::Values(GoldenCase{"small", "shard_fixed", 8, 8}, GoldenCase{"tiny", "shard_fixed", 16, 16}),
                         [](const auto& test) { return test.param.folder; });

TEST(GoldenReplicas, TheReferencesNormalisationAndClipBeforeTheReductionAreReproduced) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const auto folder = shared / "golden/tiny";
  const auto want = read_json(folder / "steps.json")["per_replica_reference_f64"];
  auto options = options_of(folder, {"tiny", "shard_fixed", 16, 8}, Precision::kF32);
  options.clip = ClipOrder::kBeforeReduce;
  options.normalisation = LossNormalisation::kPerRank;
  TrainingFixture fixture(options);
  fixture.load(folder / "init.safetensors");
  // The golden halves are in file order, so the batch is composed here and not by the loader.
  const SampleStore samples = read_shard(fixture.data.shards.front(), {});
  StepBatch batch;
  batch.micro_batches.resize(2);
  for (PackedBatch& micro : batch.micro_batches) micro.clear();
  for (std::int64_t i = 0; i < 16; ++i) {
    batch.micro_batches[static_cast<std::size_t>(i / 8)].append(samples[i], static_cast<std::uint64_t>(i));
    batch.global_masked += static_cast<std::int64_t>(samples[i].masked_positions.size());
  }
  for (PackedBatch& micro : batch.micro_batches) micro.finish();
  const StepResult result = fixture.engine->train_step(batch);
  const GoldenTolerance tolerance = golden_tolerance(golden_model(folder), 779.0, unit_roundoff(Dtype::kF32), 1);
  const double mlm = (want["replicas"][0]["mlm_loss"].get<double>() + want["replicas"][1]["mlm_loss"].get<double>()) / 2;
  EXPECT_NEAR(result.mlm_loss, mlm, tolerance.loss * mlm);
  EXPECT_NEAR(result.gradient_norm, want["norm_of_mean_of_clipped"].get<double>(),
              tolerance.gradient * want["norm_of_mean_of_clipped"].get<double>());
}

}  // namespace
}  // namespace flashbert::testing
