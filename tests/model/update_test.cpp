#include <gtest/gtest.h>

#include <cmath>

#include "model_fixture.h"
#include "reference/optimizer.h"
#include "train/golden_tolerance.h"

namespace flashbert::testing {
namespace {

/// No two alike and none at its default.
constexpr OptimizerSettings kSettings = {.lr = 0.02,
                                         .lr_total_steps = 9,
                                         .warmup_steps = 3,
                                         .start_warmup_step = -1,
                                         .lr_power = 2.0,
                                         .beta1 = 0.7,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-3,
                                         .weight_decay = 0.05,
                                         .clip_norm = 0.5};
/// By hand: (s + 1) / 3 in the warm-up, (1 - s / 9)^2 after it.
constexpr std::array<double, 4> kRates = {0.02 / 3.0, 0.04 / 3.0, 0.02 * 49.0 / 81.0, 0.02 * 36.0 / 81.0};
constexpr std::uint64_t kSeed = 5;

double squared_length(const Values& x) {
  double sum = 0.0;
  for (const double value : x) sum += value * value;
  return sum;
}

/// Weights and LAMB state of every tensor in double, updated by the reference.
class ReferenceTraining {
 public:
  explicit ReferenceTraining(const NamedValues& weights) : weights_(weights) {
    for (const auto& [name, values] : weights) states_[name] = {values, Values(values.size(), 0.0), Values(values.size(), 0.0)};
  }
  /// The gradient norm before clipping.
  double step(int number, const std::vector<OwnedSample>& samples, const ReferencePass& pass) {
    const ReferenceLoss loss = ReferenceBert(kShape, weights_).run(reference_batch(samples), pass);
    double squares = 0.0;
    for (const auto& [name, gradient] : loss.gradients) squares += squared_length(gradient);
    const double norm = std::sqrt(squares);
    reference::LambRates<double> rates{.learning_rate = kRates[static_cast<std::size_t>(number)],
                                       .bias_correction1 = 1.0 - std::pow(0.7, number + 1),
                                       .bias_correction2 = 1.0 - std::pow(0.95, number + 1),
                                       .clip_scale = std::min(1.0, 0.5 / norm),
                                       .beta1 = 0.7,
                                       .beta2 = 0.95,
                                       .epsilon = 1e-3,
                                       .weight_decay = 0.05};
    for (const auto& [name, gradient] : loss.gradients) {
      // The reference excludes biases and LayerNorm's parameters from decay and trust ratio.
      rates.decay = !name.ends_with("bias") && name.find("LayerNorm") == std::string::npos;
      states_[name] = reference::lamb_update(rates, states_[name], gradient).state;
      weights_[name] = states_[name].weight;
    }
    return norm;
  }
  [[nodiscard]] const Values& weights(const std::string& name) const { return weights_.at(name); }

 private:
  NamedValues weights_;
  std::map<std::string, reference::LambState<double>> states_;
};

TEST(ModelUpdate, FourUpdatesWithUnusualSettingsAreThoseOfDoublePrecision) {
  const NamedValues start = random_weights(ParameterTable(config_of(kShape)), 31);
  ReferenceTraining want(start);
  ModelFixture model({.global_batch = 4, .micro_batch = 2, .seed = kSeed, .optimizer = kSettings});
  model.set(start);
  constexpr int kSteps = static_cast<int>(kRates.size());
  const GoldenTolerance tolerance = golden_tolerance(config_of(kShape), 64.0, unit_roundoff(Dtype::kF32), kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const auto samples = random_samples({20, 7, 33, 4}, 40 + static_cast<std::uint64_t>(step), 4 * static_cast<std::uint64_t>(step));
    const std::int64_t masked = masked_of(samples);
    const double norm = want.step(step, samples, {.seed = kSeed, .mlm_scale = 1.0 / static_cast<double>(masked), .nsp_scale = 1.0 / 4.0});
    ASSERT_GT(norm, 0.5) << "clipping is not at work";
    const StepResult got = model.step(samples, masked, step);
    EXPECT_NEAR(got.gradient_norm, norm, (1 + step) * tolerance.gradient * norm) << step;
    EXPECT_NEAR(got.learning_rate, kRates[static_cast<std::size_t>(step)], unit_roundoff(Dtype::kF32) * 0.02) << step;
  }
  for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
    const std::string& name = model.table().parameters()[i].name;
    if (name.ends_with("key.bias")) continue;  // no gradient in exact arithmetic: LAMB divides rounding by rounding
    Values change = want.weights(name);
    Values error = change;
    const Values got = model.master(i);
    for (std::size_t k = 0; k < change.size(); ++k) {
      change[k] -= start.at(name)[k];
      error[k] -= got[k];
    }
    // Each update rounds the weights once more.
    const double rounding = kSteps * unit_roundoff(Dtype::kF32) * std::sqrt(squared_length(want.weights(name)));
    EXPECT_LE(std::sqrt(squared_length(error)), tolerance.weights * std::sqrt(squared_length(change)) + rounding) << name;
  }
}

}  // namespace
}  // namespace flashbert::testing
