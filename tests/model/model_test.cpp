#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model_fixture.h"
#include "train/golden_tolerance.h"

namespace flashbert::testing {
namespace {

/// Sequences of one and of all positions, below and above a block of 32 keys.
const std::vector<std::size_t> kLengths = {37, 5, 1, 18, 33, 9};
/// The first index of a step far into a run, so that both words of the counter count.
constexpr std::uint64_t kFirstIndex = (std::uint64_t{3} << 32) + 6;
constexpr std::uint64_t kSeed = (std::uint64_t{9} << 32) + 4;

double length(const Values& x) {
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

double distance(Values x, const Values& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
  return length(x);
}

NamedValues weights() { return random_weights(ParameterTable(config_of(kShape)), 11); }

ReferencePass pass_of(const std::vector<OwnedSample>& samples, std::uint64_t seed) {
  return {.training = true,
          .seed = seed,
          .mlm_scale = 1.0 / static_cast<double>(masked_of(samples)),
          .nsp_scale = 1.0 / static_cast<double>(samples.size())};
}

/// What the reference says of one step.
struct Expected {
  explicit Expected(const std::vector<OwnedSample>& samples, std::uint64_t seed = kSeed)
      : masked(masked_of(samples)),
        loss(ReferenceBert(kShape, values).run(reference_batch(samples), pass_of(samples, seed))),
        mlm(loss.mlm_nll / static_cast<double>(masked)),
        nsp(loss.nsp_nll / static_cast<double>(samples.size())) {}
  NamedValues values = weights();
  std::int64_t masked;
  ReferenceLoss loss;
  double mlm, nsp;
};

GoldenTolerance f32_tolerance() {
  double tokens = 0.0;
  for (const std::size_t n : kLengths) tokens += static_cast<double>(n);
  return golden_tolerance(config_of(kShape), tokens, unit_roundoff(Dtype::kF32), 1);
}

/// Softmax does not see key biases: their gradient is 0 but for rounding, which is that of the keys' weights.
double size_of_gradient(const NamedValues& gradients, const std::string& name) {
  const auto at = name.find("key.bias");
  return length(gradients.at(at == std::string::npos ? name : name.substr(0, at) + "key.weight"));
}

void expect_gradients(const ParameterTable& table, const std::function<Values(std::size_t)>& got, const NamedValues& want,
                      double relative) {
  ASSERT_EQ(table.parameters().size(), want.size());
  for (std::size_t i = 0; i < table.parameters().size(); ++i) {
    const std::string& name = table.parameters()[i].name;
    ASSERT_GT(size_of_gradient(want, name), 0.0) << name;
    EXPECT_LE(distance(got(i), want.at(name)), relative * size_of_gradient(want, name)) << name;
  }
}

TEST(ReferenceModel, GradientsUnderDropoutMatchFiniteDifferences) {
  const auto samples = random_samples({5, 1, 18, 9}, 21, kFirstIndex);
  const ReferenceBatch batch = reference_batch(samples);
  const ReferencePass pass = pass_of(samples, kSeed);
  NamedValues at = weights();
  const ReferenceLoss loss = ReferenceBert(kShape, at).run(batch, pass);
  const auto value = [&] {
    const ReferenceLoss moved = ReferenceBert(kShape, at).run(batch, pass);
    return pass.mlm_scale * moved.mlm_nll + pass.nsp_scale * moved.nsp_nll;
  };
  RandomValues random(22);
  for (const auto& [name, gradient] : loss.gradients) {
    Values& tensor = at.at(name);
    const Values kept = tensor;
    // Every element moves, each by an amount of its own.
    const Values direction = random.values(static_cast<std::int64_t>(tensor.size()), Dtype::kF64);
    double wanted = 0.0;
    for (std::size_t i = 0; i < tensor.size(); ++i) wanted += direction[i] * gradient[i];
    // The third derivative grows with the cube of the direction's length: h = 1e-4 / length leaves h^2 = 1e-8 of it, and 2^-53 / h of
    // rounding is far below.
    const double h = 1e-4 / length(direction);
    const auto moved = [&](double by) {
      for (std::size_t i = 0; i < tensor.size(); ++i) tensor[i] = kept[i] + by * direction[i];
      return value();
    };
    const double difference = (moved(h) - moved(-h)) / (2.0 * h);
    tensor = kept;
    EXPECT_NEAR(difference, wanted, 1e-6 * length(direction) * std::max(1.0, length(gradient))) << name;
  }
}

class ModelInMicroBatches : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ModelInMicroBatches, LossesAndEveryGradientUnderDropoutAreThoseOfDoublePrecision) {
  const auto samples = random_samples(kLengths, 12, kFirstIndex);
  const Expected want(samples);
  ModelFixture model({.global_batch = samples.size(), .micro_batch = GetParam(), .seed = kSeed});
  model.set(want.values);
  const StepResult got = model.step(samples, want.masked);
  const GoldenTolerance tolerance = f32_tolerance();
  EXPECT_NEAR(got.mlm_loss, want.mlm, tolerance.loss * want.mlm);
  EXPECT_NEAR(got.nsp_loss, want.nsp, tolerance.loss * want.nsp);
  expect_gradients(
      model.table(), [&](std::size_t i) { return model.gradient(i); }, want.loss.gradients, tolerance.gradient);
}
INSTANTIATE_TEST_SUITE_P(Sizes, ModelInMicroBatches, ::testing::Values(6U, 3U, 2U, 1U), ::testing::PrintToStringParamName());

TEST(Model, HalvesOfAGlobalBatchAddUpToTheWhole) {
  const auto samples = random_samples(kLengths, 12, kFirstIndex);
  const Expected want(samples);
  const std::vector<std::vector<OwnedSample>> halves = {{samples.begin(), samples.begin() + 3}, {samples.begin() + 3, samples.end()}};
  std::vector<Values> sums;
  double mlm = 0.0;
  double nsp = 0.0;
  ModelFixture model({.global_batch = samples.size(), .micro_batch = 3, .seed = kSeed});
  for (const auto& half : halves) {
    model.set(want.values);
    const StepResult got = model.step(half, want.masked);
    mlm += got.mlm_loss;
    nsp += got.nsp_loss;
    for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
      const Values gradient = model.gradient(i);
      if (sums.size() <= i) sums.emplace_back(gradient.size(), 0.0);
      for (std::size_t k = 0; k < gradient.size(); ++k) sums[i][k] += gradient[k];
    }
  }
  const GoldenTolerance tolerance = f32_tolerance();
  EXPECT_NEAR(mlm, want.mlm, tolerance.loss * want.mlm);
  EXPECT_NEAR(nsp, want.nsp, tolerance.loss * want.nsp);
  expect_gradients(
      model.table(), [&](std::size_t i) { return sums[i]; }, want.loss.gradients, tolerance.gradient);
}

TEST(Model, SeedAndSampleIndexChangeTheLossAsTheRuleSays) {
  const auto loss = [](std::uint64_t seed, std::uint64_t first) {
    const auto samples = random_samples(kLengths, 12, first);
    const Expected want(samples, seed);
    ModelFixture model({.global_batch = samples.size(), .micro_batch = 6, .seed = seed});
    model.set(want.values);
    const StepResult got = model.step(samples, want.masked);
    const double total = want.mlm + want.nsp;
    EXPECT_NEAR(got.loss, total, f32_tolerance().loss * total) << seed << " " << first;
    return total;
  };
  const double base = loss(kSeed, kFirstIndex);
  // Each moves one word of the key or of the counter; masks that differ move the loss by far more than the tolerance.
  for (const double other : {loss(kSeed + 1, kFirstIndex), loss(kSeed + (std::uint64_t{1} << 32), kFirstIndex),
                             loss(kSeed, kFirstIndex + 6), loss(kSeed, kFirstIndex + (std::uint64_t{1} << 32))}) {
    EXPECT_GT(std::abs(other - base), 1000.0 * f32_tolerance().loss * base);
  }
}

TEST(Model, EvaluationIsThatWithoutDropoutWhateverTheRates) {
  const NamedValues values = weights();
  auto samples = random_samples(kLengths, 13, 0);
  label_with_guesses(samples, values);
  ReferencePass pass = pass_of(samples, kSeed);
  pass.training = false;
  const ReferenceLoss want = ReferenceBert(kShape, values).run(reference_batch(samples), pass);
  ASSERT_GE(want.mlm_correct, masked_of(samples) / 2);
  ASSERT_GT(want.smallest_lead, 1e-4);  // far above the rounding of an f32 logit
  const double masked = static_cast<double>(masked_of(samples));
  const double sequences = static_cast<double>(samples.size());
  for (const auto& [hidden_rate, attention_rate] : {std::pair{0.0F, 0.0F}, std::pair{0.15F, 0.3F}, std::pair{0.9F, 0.5F}}) {
    ReferenceShape shape = kShape;
    shape.hidden_dropout = hidden_rate;
    shape.attention_dropout = attention_rate;
    for (const std::size_t micro : {6U, 4U, 1U}) {
      ModelFixture model({.shape = shape, .global_batch = 6, .micro_batch = micro, .seed = kSeed});
      model.set(values);
      const EvaluationResult got = model.evaluate(samples);
      EXPECT_EQ(got.correct, want.mlm_correct);
      EXPECT_EQ(got.masked, masked_of(samples));
      EXPECT_EQ(got.samples, 6);
      EXPECT_EQ(got.accuracy, static_cast<double>(want.mlm_correct) / masked);
      EXPECT_EQ(got.nsp_accuracy, static_cast<double>(want.nsp_correct) / sequences);
      EXPECT_NEAR(got.mlm_loss, want.mlm_nll / masked, f32_tolerance().loss * want.mlm_nll / masked);
      EXPECT_NEAR(got.nsp_loss, want.nsp_nll / sequences, f32_tolerance().loss * want.nsp_nll / sequences);
    }
  }
}

TEST(Model, InBf16DropsTheSameElements) {
  const auto samples = random_samples(kLengths, 12, kFirstIndex);
  const Expected want(samples);
  ModelFixture model({.global_batch = samples.size(), .micro_batch = 3, .seed = kSeed, .precision = Precision::kBf16});
  if (model.compute() != Dtype::kBf16) GTEST_SKIP() << "no products of bf16 on this instruction set";
  model.set(want.values);
  const StepResult got = model.step(samples, want.masked);
  const double relative = bf16_tolerance(config_of(kShape));
  EXPECT_NEAR(got.mlm_loss, want.mlm, relative * want.mlm);
  EXPECT_NEAR(got.nsp_loss, want.nsp, relative * want.nsp);
  double squares = 0.0;
  double errors = 0.0;
  for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
    const Values& wanted = want.loss.gradients.at(model.table().parameters()[i].name);
    squares += length(wanted) * length(wanted);
    errors += distance(model.gradient(i), wanted) * distance(model.gradient(i), wanted);
  }
  EXPECT_LE(std::sqrt(errors), relative * std::sqrt(squares));
}

}  // namespace
}  // namespace flashbert::testing
