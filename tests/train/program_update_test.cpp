// Updates of the whole program by hand, from nothing but its saves: the optimizer's settings reach what they are named for.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "program_support.h"
#include "support/plain_safetensors.h"

namespace flashbert::testing {
namespace {

constexpr double kEpsilon = 1e-3;
constexpr double kRate = 0.25;
constexpr double kUnit = 0x1p-24;
/// Above it a gradient cannot be told from its update: u = g / (|g| + eps) is near 1.
constexpr double kLargest = 0.9;

/// u of every bias: they start at 0, have neither decay nor trust ratio, so that the last update is all that they hold.
std::vector<double> updates(const std::string& name, const std::string& options, double rate) {
  const TrainedRun run =
      train(name, fmt::format("--layers 1 --hidden 16 --heads 2 --intermediate 24 --vocab 1024 --max-positions 128 "
                              "--hidden-dropout 0 --attention-dropout 0 --precision f32 --threads 1 --seed 11 "
                              "--global-batch 8 --lr {} --lr-power 0 --epsilon {} --train-data {}/train --save-at-end {}",
                              kRate, kEpsilon, small_data().string(), options));
  EXPECT_EQ(run.status, 0) << run.output;
  std::string newest;
  std::ifstream(run.out / "checkpoints/latest") >> newest;
  std::vector<double> result;
  for (const auto& [parameter, tensor] : read_plain(run.out / "checkpoints" / newest / "model.safetensors").tensors) {
    if (!parameter.ends_with(".bias")) continue;
    for (const double value : tensor.values) result.push_back(-value / rate);
  }
  return result;
}

/// The gradient behind a first update, or one without memory: u = g / (|g| + eps).
double gradient(double update) { return kEpsilon * update / (1.0 - std::abs(update)); }

TEST(ProgramUpdate, TheSecondUpdateWeighsBothGradientsByTheBetas) {
  const double beta1 = 0.5;
  const double beta2 = 0.25;
  // A warm-up whose first rate is 0: the second gradient is that of the second batch at the first weights.
  const std::string second = " --clip-norm 1e30 --max-steps 2 --warmup-steps 4";
  const auto g1 = updates("update-first", "--clip-norm 1e30 --max-steps 1", kRate);
  const auto g2 = updates("update-second", "--beta1 0 --beta2 0" + second, kRate / 4.0);
  const auto got = updates("update-both", fmt::format("--beta1 {} --beta2 {}", beta1, beta2) + second, kRate / 4.0);
  ASSERT_EQ(got.size(), g1.size());
  int compared = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::abs(g1[i]) > kLargest || std::abs(g2[i]) > kLargest || g1[i] == 0.0 || g2[i] == 0.0) continue;
    const double a = gradient(g1[i]);
    const double b = gradient(g2[i]);
    const auto moment = [](double beta, double x, double y) { return (beta * (1.0 - beta) * x + (1.0 - beta) * y) / (1.0 - beta * beta); };
    const double divisor = std::sqrt(moment(beta2, a * a, b * b)) + kEpsilon;
    // An update is known to a rounding, its gradient to 1 / (1 - kLargest) times as much, from both runs; then a dozen operations of this.
    const double tolerance = (2.0 / (1.0 - kLargest) + 12.0) * 2.0 * kUnit * moment(beta1, std::abs(a), std::abs(b)) / divisor;
    EXPECT_NEAR(got[i], moment(beta1, a, b) / divisor, tolerance) << i;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

TEST(ProgramUpdate, GradientsAboveTheClipNormAreScaledToIt) {
  const double clip = 0.01;
  const auto whole = updates("clip-none", "--clip-norm 1e30 --max-steps 1", kRate);
  const auto clipped = updates("clip-some", fmt::format("--clip-norm {} --max-steps 1", clip), kRate);
  const TrainedRun run{.status = 0, .output = {}, .out = work_folder() / "clip-some"};
  const auto norm = run.step_metrics().at(0)["grad_norm"].get<double>();  // before clipping
  ASSERT_GT(norm, 2.0 * clip);
  int compared = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (std::abs(whole[i]) > kLargest || whole[i] == 0.0) continue;
    const double scaled = gradient(whole[i]) * clip / norm;
    const double want = scaled / (std::abs(scaled) + kEpsilon);
    EXPECT_NEAR(clipped[i], want, (2.0 / (1.0 - kLargest) + 12.0) * kUnit * std::abs(want)) << i;
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace flashbert::testing
