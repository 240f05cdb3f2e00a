// What benches tell, against operations counted on paper and against each other: a figure is an amount over a time, and both are told.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "bench/bench_attention.h"
#include "bench/bench_gemm.h"
#include "bench/bench_loader.h"
#include "bench/bench_step.h"
#include "core/clock.h"
#include "data/synth.h"

namespace flashbert::testing {
namespace {

constexpr BenchOptions kQuick = {.threads = 1, .precision = Precision::kF32, .seconds = 0.05};

using Figures = std::map<std::string, std::map<std::string, double>>;
Figures figures_of(const std::vector<BenchRow>& rows) {
  Figures figures;
  for (const BenchRow& row : rows) figures[row.name] = {row.values.begin(), row.values.end()};
  return figures;
}

void expect_product(const Figures& figures, const std::string& name, double operations) {
  const auto& row = figures.at(name);
  EXPECT_NEAR(row.at("gflops") * 1e9 * row.at("ms") * 1e-3, operations, 1e-9 * operations) << name;
  EXPECT_NEAR(row.at("share_of_peak") * figures.at("peak").at("gflops"), row.at("gflops"), 1e-9 * row.at("gflops")) << name;
}

TEST(Bench, TheMedianIsTheMiddleOne) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({5, 3, 8, 1, 100}), 5);
  EXPECT_EQ(median({2, 8, 4, 6}), 6) << "the upper one of two";
}

TEST(Bench, ProductsCountTwoOperationsAMultiplyAdd) {
  const auto start = Clock::now();
  const Figures figures = figures_of(bench_gemm(kQuick, {.rows = 96, .in = 64, .out = 160}));
  const double elapsed_ms = 1e3 * seconds_since(start);
  for (const char* const name : {"forward", "input_gradient", "weight_gradient"}) {
    expect_product(figures, name, 2.0 * 96 * 64 * 160);
    // At least five calls were made, half of them no shorter than the median.
    EXPECT_LE(3.0 * figures.at(name).at("ms"), elapsed_ms) << name;
  }
}

TEST(Bench, AttentionCountsTwoProductsForwardAndFiveBackward) {
  const Figures figures = figures_of(bench_attention(kQuick, {.heads = 3, .head_dim = 32, .seq_len = 40, .batch = 2, .dropout = 0.1F}));
  const double product = 2.0 * 2 * 40 * 40 * 3 * 32;  // two operations, two sequences, 40 x 40 scores, three heads of 32
  expect_product(figures, "forward", 2 * product);
  expect_product(figures, "backward", 5 * product);
  expect_product(figures, "both", 7 * product);
  EXPECT_NEAR(figures.at("both").at("ms"), figures.at("forward").at("ms") + figures.at("backward").at("ms"), 1e-9);
}

TEST(Bench, StepFiguresFollowFromTheMedianStep) {
  // Samples are never shorter than 5 tokens, so with 5 at most all have 5, of which one is masked: the operations are known.
  const BertConfig model{.layers = 2, .hidden = 64, .heads = 2, .intermediate = 96, .vocab = 203, .max_positions = 16, .type_vocab = 2};
  for (const std::int64_t micro : {8, 4}) {
    const auto start = Clock::now();
    const auto step = figures_of(bench_step(kQuick, {.model = model, .seq_len = 5, .batch = 8, .micro_batch = micro})).at("step");
    const double elapsed_s = seconds_since(start);
    const double step_s = step.at("step_ms_median") * 1e-3;
    const double peak = step.at("peak_gflops") * 1e9;
    const auto expect_over_step = [&](const char* key, double amount) { EXPECT_NEAR(step.at(key) * step_s, amount, 1e-9 * amount) << key; };
    expect_over_step("seq_per_s", 8.0);
    expect_over_step("tokens_per_s", 40.0);
    expect_over_step("mfu", 15'092'736.0 / peak);
    expect_over_step("executed_share_of_peak", 12'250'112.0 / peak);
    EXPECT_NEAR(step.at("forward_backward_share_of_peak") * step.at("forward_backward_ms") * 1e-3, 12'250'112.0 / peak, 1e-9);
    EXPECT_EQ(step.at("tokens_per_step"), 40.0);
    EXPECT_GE(step.at("steps"), 5.0);
    // Every step holds its forward, backward and optimizer; half of the steps took no less than the median.
    EXPECT_GE(step.at("step_ms_median"), step.at("forward_backward_ms"));
    EXPECT_LE(step.at("steps") / 2.0 * step_s, elapsed_s);
    EXPECT_GT(step.at("planned_mib"), 1.0);  // 71,000 parameters of 16 bytes
  }
}

TEST(Bench, LoaderCountsSamplesAndTokens) {
  const std::filesystem::path data = std::filesystem::temp_directory_path() / fmt::format("flashbert-bench-{}", ::getpid());
  const auto made = synthesize(
      {.out = data, .samples = 400, .eval_samples = 8, .vocab = 157, .seq_len = 32, .layout = "varlength", .shards = 2, .seed = 3});
  const auto start = Clock::now();
  const auto loader = figures_of(bench_loader(kQuick, {.data = data / "train", .batch = 400, .max_positions = 32})).at("loader");
  const double elapsed_s = seconds_since(start);
  // A batch is the whole set: tokens a sample are the set's mean in every step.
  EXPECT_NEAR(loader.at("tokens_per_s") / loader.at("seq_per_s") * 400.0, static_cast<double>(made.train_tokens),
              1e-9 * static_cast<double>(made.train_tokens));
  EXPECT_LE(loader.at("first_batch_ms") * 1e-3, elapsed_s);
  // At least five steps of 400 samples after the first.
  EXPECT_GE(loader.at("seq_per_s") * elapsed_s, 5 * 400.0);
  std::filesystem::remove_all(data);
}

}  // namespace
}  // namespace flashbert::testing
