#include <omp.h>

#include "data/synth.h"
#include "golden_tolerance.h"
#include "train/checkpoint_convert.h"
#include "train/checkpoint_inspect.h"
#include "train/checkpoint_save.h"
#include "training_fixture.h"

namespace flashbert::testing {
namespace {

namespace fs = std::filesystem;

BertConfig tiny_model() {
  return {.layers = 2,
          .hidden = 64,
          .heads = 2,
          .intermediate = 128,
          .vocab = 157,
          .max_positions = 32,
          .hidden_dropout = 0.1F,
          .attention_dropout = 0.1F};
}

/// A small synthetic data set, made once for all tests.
const fs::path& tiny_data() {
  static const fs::path folder = [] {
    const fs::path path = fs::temp_directory_path() / fmt::format("flashbert-engine-{}", ::getpid());
    static_cast<void>(synthesize(
        {.out = path, .samples = 256, .eval_samples = 16, .vocab = 157, .seq_len = 32, .layout = "varlength", .shards = 2, .seed = 3}));
    return path / "train";
  }();
  return folder;
}

TrainingFixture::Options tiny_options() {
  return {
      .model = tiny_model(), .optimizer = {.lr = 5e-3, .lr_total_steps = 100}, .data = tiny_data(), .global_batch = 16, .micro_batch = 16};
}

struct Trajectory {
  std::vector<double> losses;
  std::string digest;
};
Trajectory run(const TrainingFixture::Options& options, int steps) {
  TrainingFixture fixture(options);
  fixture.initialise(options.seed);
  Trajectory result;
  for (int s = 0; s < steps; ++s) result.losses.push_back(fixture.step().loss);
  result.digest = fixture.engine->weight_digest();
  return result;
}

class EngineInBothPrecisions : public ::testing::TestWithParam<Precision> {};

TEST_P(EngineInBothPrecisions, IsBitEqualForOneTwoFourAndEightThreads) {
  auto options = tiny_options();
  options.precision = GetParam();
  options.threads = 1;
  const Trajectory one = run(options, 6);
  for (const int threads : {2, 4, 8}) {
    options.threads = threads;
    const Trajectory many = run(options, 6);
    EXPECT_EQ(many.losses, one.losses) << threads << " threads";
    EXPECT_EQ(many.digest, one.digest) << threads << " threads";
  }
}
INSTANTIATE_TEST_SUITE_P(Precisions, EngineInBothPrecisions, ::testing::Values(Precision::kF32, Precision::kBf16),
                         [](const auto& test) { return test.param == Precision::kF32 ? "f32" : "bf16"; });

TEST(Engine, MicroBatchesDifferByTheRoundingOfReorderedSumsOnly) {
  auto options = tiny_options();
  const Trajectory whole = run(options, 20);
  // Sums over micro-batches are split elsewhere; the difference feeds back through 20 updates, each of which may add its own.
  const GoldenTolerance tolerance = golden_tolerance(options.model, 512.0, unit_roundoff(Dtype::kF32), 20);
  for (const std::int64_t micro : {4, 8}) {
    options.micro_batch = micro;
    const Trajectory split = run(options, 20);
    EXPECT_NEAR(split.losses[0], whole.losses[0], 1e-6 * whole.losses[0]) << micro;
    for (std::size_t s = 0; s < whole.losses.size(); ++s)
      EXPECT_NEAR(split.losses[s], whole.losses[s], tolerance.weights * whole.losses[s]) << micro << " step " << s;
  }
}

TEST(Engine, EqualRowsAtDifferentSlotsGetDifferentMasks) {
  auto options = tiny_options();
  options.micro_batch = 8;
  TrainingFixture fixture(options);
  fixture.initialise();
  const SampleStore samples = read_shard(fixture.data.shards.front(), {});
  // The loss of one row alone, at two slots, without an update in between.
  const auto loss_at = [&](std::uint64_t slot) {
    StepBatch batch;
    batch.micro_batches.resize(1);
    batch.micro_batches[0].clear();
    batch.micro_batches[0].append(samples[0], slot);
    batch.micro_batches[0].finish();
    batch.global_masked = static_cast<std::int64_t>(samples[0].masked_positions.size());
    fixture.initialise();
    return fixture.engine->train_step(batch).loss;
  };
  EXPECT_EQ(loss_at(3), loss_at(3));
  EXPECT_NE(loss_at(3), loss_at(11));
}

TEST(Engine, MicroBatchesWithoutMaskCountWithTheirNextSentenceLossOnly) {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    for (const auto normalisation : {LossNormalisation::kGlobal, LossNormalisation::kPerRank}) {
      auto options = tiny_options();
      options.precision = precision;
      options.normalisation = normalisation;
      options.micro_batch = 1;
      options.optimizer.weight_decay = 0.0;
      TrainingFixture fixture(options);
      fixture.initialise();
      const SampleStore samples = read_shard(fixture.data.shards.front(), {});
      StepBatch batch;
      batch.micro_batches.resize(3);
      for (std::size_t i = 0; i < 3; ++i) {
        SampleView sample = samples[static_cast<std::int64_t>(i)];
        if (i == 1) sample.masked_positions = sample.masked_positions.first(0);
        if (i == 1) sample.masked_labels = sample.masked_labels.first(0);
        batch.micro_batches[i].clear();
        batch.micro_batches[i].append(sample, i);
        batch.micro_batches[i].finish();
        batch.global_masked += static_cast<std::int64_t>(sample.masked_positions.size());
      }
      const StepResult mixed = fixture.engine->train_step(batch);
      EXPECT_TRUE(mixed.bad_value.empty()) << mixed.bad_value;
      EXPECT_TRUE(std::isfinite(mixed.loss) && std::isfinite(mixed.gradient_norm));
      EXPECT_EQ(mixed.batches_without_mask, 1);

      // A batch of such rows alone moves nothing that only the masked-LM head reaches.
      StepBatch alone;
      alone.step = 1;
      alone.micro_batches.push_back(batch.micro_batches[1]);
      fixture.initialise();
      const std::int64_t decoder = fixture.parameters().table().find("cls.predictions.transform.dense.weight");
      const Tensor transform = fixture.parameters().parameter_master(static_cast<std::size_t>(decoder));
      const std::vector<float> before(transform.data<float>(), transform.data<float>() + transform.elements());
      const StepResult none = fixture.engine->train_step(alone);
      EXPECT_EQ(none.mlm_loss, 0.0);
      EXPECT_TRUE(none.bad_value.empty()) << none.bad_value;
      float moved = 0.0F;
      const float* const gradient = fixture.parameters().parameter_gradient(static_cast<std::size_t>(decoder)).data<float>();
      for (std::int64_t i = 0; i < transform.elements(); ++i) moved = std::max(moved, std::abs(gradient[i]));
      EXPECT_EQ(moved, 0.0F);
    }
  }
}

TEST(Engine, ANanStopsTheStepAndNamesTheTensorAndKeepsTheWeights) {
  TrainingFixture fixture(tiny_options());
  fixture.initialise();
  Parameters& parameters = fixture.parameters();
  const std::int64_t index = parameters.table().find("bert.pooler.dense.bias");
  parameters.parameter_master(static_cast<std::size_t>(index)).data<float>()[3] = std::nanf("");
  const std::int64_t other = parameters.table().find("bert.embeddings.LayerNorm.weight");
  const StepResult result = fixture.step();
  EXPECT_EQ(result.bad_value, "next-sentence loss");
  EXPECT_EQ(parameters.parameter_master(static_cast<std::size_t>(other)).data<float>()[0], 1.0F);
}

TEST(Engine, SmallRatesMoveTheMasterWeightsInBf16) {
  auto options = tiny_options();
  options.optimizer.lr = 1e-5;
  options.precision = Precision::kBf16;
  TrainingFixture fixture(options);
  fixture.initialise();
  const std::int64_t index = fixture.parameters().table().find("bert.encoder.layer.0.output.dense.weight");
  const Tensor master = fixture.parameters().parameter_master(static_cast<std::size_t>(index));
  const std::vector<float> before(master.data<float>(), master.data<float>() + master.elements());
  for (int s = 0; s < 20; ++s) static_cast<void>(fixture.step());
  std::int64_t moved = 0;
  for (std::int64_t i = 0; i < master.elements(); ++i) moved += master.data<float>()[i] != before[static_cast<std::size_t>(i)] ? 1 : 0;
  EXPECT_GE(moved, master.elements() * 99 / 100);
}

TEST(Checkpoint, ASavedModelReadsBackBitEqual) {
  TrainingFixture fixture(tiny_options());
  fixture.initialise();
  static_cast<void>(fixture.step());
  const fs::path out = fs::temp_directory_path() / fmt::format("flashbert-save-{}", ::getpid());
  const std::string digest = fixture.engine->weight_digest();
  for (const std::int64_t step : {1, 2, 3}) {
    save_checkpoint({.out = out, .state = {.step = step, .samples = 16 * step, .seed = 1}, .model = tiny_model(), .keep = 2},
                    fixture.parameters(), *fixture.backend.ops);
  }
  EXPECT_FALSE(fs::exists(out / "checkpoints/step-00000001"));
  TrainingFixture other(tiny_options());
  other.initialise(99);
  other.load(out / "checkpoints/step-00000003");
  EXPECT_EQ(other.engine->weight_digest(), digest);
  EXPECT_EQ(inspect_checkpoint(out / "checkpoints/step-00000003").step, 3);
  const std::string note = convert_checkpoint(out / "checkpoints/step-00000003", out / "model.safetensors", {});
  other.initialise(99);
  other.load(out / "model.safetensors");
  EXPECT_EQ(other.engine->weight_digest(), digest);
  fs::remove_all(out);
}

TEST(Checkpoint, AHeaderLengthThatLooksLikePickleIsReadAllTheSame) {
  // PyTorch's old files start with 0x80; so does every safetensors file whose header has 128 (mod 256) bytes.
  const fs::path file = fs::temp_directory_path() / fmt::format("flashbert-magic-{}.safetensors", ::getpid());
  const float value = 1.0F;
  int found = 0;
  for (std::size_t padding = 0; padding < 256; padding += 8) {
    write_safetensors(file, {{"x", ConstTensor(&value, Dtype::kF32, {1})}}, {{"note", std::string(padding, '-')}});
    std::ifstream start(file, std::ios::binary);
    if (start.get() == 0x80) ++found;
    EXPECT_EQ(inspect_checkpoint(file).tensors.size(), 1U) << padding;
  }
  EXPECT_EQ(found, 1);
  std::ofstream(file, std::ios::binary) << "\x80\x02 a pickle";
  EXPECT_THROW(static_cast<void>(inspect_checkpoint(file)), InputError);
  fs::remove(file);
}

TEST(Checkpoint, AStepThatIsNoNumberIsNotTold) {
  const fs::path file = fs::temp_directory_path() / fmt::format("flashbert-step-{}.safetensors", ::getpid());
  const float value = 1.0F;
  for (const std::string text : {"final", "12abc", ""}) {
    write_safetensors(file, {{"x", ConstTensor(&value, Dtype::kF32, {1})}}, {{"step", text}});
    EXPECT_EQ(inspect_checkpoint(file).step, std::nullopt) << text;
  }
  write_safetensors(file, {{"x", ConstTensor(&value, Dtype::kF32, {1})}}, {{"step", "12"}});
  EXPECT_EQ(inspect_checkpoint(file).step, 12);
  fs::remove(file);
}

TEST(Checkpoint, WhatDoesNotFitIsListedWhole) {
  TrainingFixture fixture(tiny_options());
  fixture.initialise();
  const fs::path file = fs::temp_directory_path() / fmt::format("flashbert-misfit-{}.safetensors", ::getpid());
  const std::vector<float> values(64, 0.0F);
  write_safetensors(file,
                    {{"bert.pooler.dense.bias", ConstTensor(values.data(), Dtype::kF32, {32})},
                     {"surprise", ConstTensor(values.data(), Dtype::kF32, {64})}},
                    {});
  try {
    fixture.load(file);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("bert.pooler.dense.bias has shape (32), the model wants (64)"), std::string::npos) << message;
    EXPECT_NE(message.find("missing: bert.embeddings.word_embeddings.weight"), std::string::npos) << message;
    EXPECT_NE(message.find("unknown: surprise"), std::string::npos) << message;
  }
  fs::remove(file);
}

}  // namespace
}  // namespace flashbert::testing
