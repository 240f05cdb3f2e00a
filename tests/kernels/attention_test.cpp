#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "attention_support.h"
#include "support/golden_ops.h"
#include "support/shared_data.h"

namespace flashbert {
namespace {

using reference::AttentionResult;
using reference::AttentionRow;
using reference::AttentionTensors;
using testing::AttentionCase;
using testing::AttentionRun;
using testing::AttentionSetup;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::Lengths;
using testing::RowGap;
using testing::TestDevice;
using Values = std::vector<double>;

constexpr Dropout kDropout{.rate = 0.1F, .seed = 0xfedcba9876543210ULL, .layer = 7, .site = DropoutSite::kAttention};

/// Around the sizes of tiles, vectors and keep words; empty sequences; queries without keys and keys without queries; picked rows.
const Lengths& mixed_lengths() {
  static const Lengths lengths{{1, 0, 5, 17, 64, 65, 0, 3, 49, 2}, {1, 0, 5, 17, 64, 65, 9, 0, 31, 97}};
  return lengths;
}

constexpr std::array<std::size_t, 6> kHeadDims{8, 24, 40, 64, 128, 256};

/// Every element within what the arithmetic of f32 allows.
void expect_f32_results(const AttentionCase& c, const AttentionRun& run) {
  const AttentionTensors<Estimate> in{exact(c.query), exact(c.key), exact(c.value)};
  const AttentionResult<Estimate> want = reference::attention_forward(c.batch, in);
  testing::expect_close(run.out.values(), testing::stored(want.out, Dtype::kF32), "out");
  testing::expect_close(run.lse.values(), testing::stored(want.lse, Dtype::kF32), "lse");
  const auto gradients = reference::attention_backward(c.batch, in, want, exact(c.dout));
  testing::expect_close(run.dquery.values(), testing::stored(gradients.dquery, Dtype::kF32), "dquery");
  testing::expect_close(run.dkey.values(), testing::stored(gradients.dkey, Dtype::kF32), "dkey");
  testing::expect_close(run.dvalue.values(), testing::stored(gradients.dvalue, Dtype::kF32), "dvalue");
}

/// The largest and the total error at most `factor` times those of the plain algorithm.
struct ErrorRule {
  const char* name;
  double factor;
};
void expect_error_like_plain(const ErrorRule& rule, const Values& got, const Values& plain, const Values& truth) {
  const Values stored = testing::rounded(plain, Dtype::kBf16);
  EXPECT_LE(testing::largest_error(got, truth), rule.factor * testing::largest_error(stored, truth)) << rule.name << ", largest error";
  EXPECT_LE(testing::total_error(got, truth), rule.factor * testing::total_error(stored, truth)) << rule.name << ", total error";
}

/// The plain algorithm in double, but with probabilities, dS and results rounded to bf16, is the yardstick: no element-wise bound holds for
/// an algorithm that rounds P to 8 bits, yet a flash kernel has no reason to be worse than the plain one by more than a small factor.
void expect_bf16_results(const AttentionCase& c, const AttentionRun& run) {
  constexpr double kForwardFactor = 2.0;
  constexpr double kBackwardFactor = 3.0;
  const AttentionTensors<double> in{c.query, c.key, c.value};
  const reference::KeepInBf16 keep;
  const auto truth = reference::attention_forward(c.batch, in);
  const auto plain = reference::attention_forward(c.batch, in, keep);
  expect_error_like_plain({"out", kForwardFactor}, run.out.values(), plain.out, truth.out);
  const auto want = reference::attention_backward(c.batch, in, truth, c.dout);
  const AttentionResult<double> stored{testing::rounded(plain.out, Dtype::kBf16), plain.lse};
  const auto rough = reference::attention_backward(c.batch, in, stored, c.dout, keep);
  expect_error_like_plain({"dquery", kBackwardFactor}, run.dquery.values(), rough.dquery, want.dquery);
  expect_error_like_plain({"dkey", kBackwardFactor}, run.dkey.values(), rough.dkey, want.dkey);
  expect_error_like_plain({"dvalue", kBackwardFactor}, run.dvalue.values(), rough.dvalue, want.dvalue);
}

/// The stored decisions of every row and key against one scalar Philox call each.
void expect_mask(const AttentionCase& c, const AttentionRun& run) {
  const Values keep = run.keep.values();
  const auto words = static_cast<std::size_t>(c.words());
  std::size_t wrong = 0;
  reference::for_attention_rows(c.batch, [&](const AttentionRow& row) {
    for (std::size_t k = 0; k < row.end - row.begin; ++k) {
      const auto word = static_cast<std::uint32_t>(keep[(row.query * c.batch.heads + row.head) * words + k / 32]);
      const bool kept = c.batch.factor(row.sequence, row.head, row.query, k) != 0.0;
      if (((word >> (k % 32) & 1U) == 1U) != kept) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0U);
}

class AttentionOp : public testing::OpTest {
 protected:
  void expect_both_passes(const AttentionSetup& setup, std::uint64_t seed, RowGap gap = {}) const {
    SCOPED_TRACE(fmt::format("head size {}, gap {}, seed {}", setup.head_dim, gap.elements, seed));
    const AttentionCase c(setup, dtype(), seed);
    const AttentionRun run(device(), dtype(), c, gap);
    run.forward();
    run.backward();
    if (setup.dropout.active()) expect_mask(c, run);
    if (dtype() == Dtype::kF32) {
      expect_f32_results(c, run);
    } else {
      expect_bf16_results(c, run);
    }
  }
};

TEST_P(AttentionOp, RowsOfVeryNegativeScoresHaveOrdinaryGradients) {
  // Scores of about -407: exp(score) itself is nothing, and 1 / exp(score) no number, for keys past the end of a tile too.
  for (const std::int32_t keys : {1, 3, 17, 33}) {
    AttentionCase c({.lengths = {{keys}, {keys}}, .heads = 1, .head_dim = 64, .dropout = {}, .tail = 3}, dtype(), 131);
    const auto used = static_cast<std::size_t>(keys) * 64;
    for (std::size_t i = 0; i < used; ++i) {
      c.query[i] = 7.125;
      c.key[i] = i % 64 == 0 ? -7.0 : -7.125;
    }
    const AttentionRun run(device(), dtype(), c);
    run.forward();
    run.backward();
    SCOPED_TRACE(keys);
    for (const double value : run.dquery.values()) ASSERT_TRUE(std::isfinite(value));
    if (dtype() == Dtype::kF32) {
      expect_f32_results(c, run);
    } else {
      // All probabilities are equal, so nothing but the storing of P, dS and the results in bf16 rounds: eight of them at most an element.
      const AttentionTensors<double> in{c.query, c.key, c.value};
      const auto forward = reference::attention_forward(c.batch, in);
      const auto want = reference::attention_backward(c.batch, in, forward, c.dout);
      const auto limit = [&](const Values& values) {
        return 8.0 * unit_roundoff(Dtype::kBf16) * testing::largest_error(values, Values(values.size(), 0.0));
      };
      const auto expect_rows = [&](const DeviceTensor& got, Values wanted, const char* what, double bound) {
        Values values = got.values();
        values.resize(used);
        wanted.resize(used);
        EXPECT_LE(testing::largest_error(values, wanted), bound) << what;
      };
      Values value_gradients = want.dvalue;
      value_gradients.resize(used);
      expect_rows(run.dvalue, want.dvalue, "dvalue", limit(value_gradients));
      // dS is a difference of products of size |dO| |V| scale / keys times |K| = 7.125, over 64 elements each.
      expect_rows(run.dquery, want.dquery, "dquery", 8.0 * unit_roundoff(Dtype::kBf16) * 64.0 * c.batch.scale * 7.125);
    }
  }
}

TEST_P(AttentionOp, BothPassesMatchReferenceForEveryHeadSize) {
  for (const std::size_t head_dim : kHeadDims) {
    expect_both_passes({.lengths = mixed_lengths(), .heads = 2, .head_dim = head_dim, .dropout = {}}, 400 + head_dim);
  }
}

TEST_P(AttentionOp, BothPassesAndTheMaskMatchReferenceUnderDropout) {
  for (const std::size_t head_dim : kHeadDims) {
    expect_both_passes({.lengths = mixed_lengths(), .heads = 2, .head_dim = head_dim, .dropout = kDropout}, 500 + head_dim);
  }
}

// Odd gaps put bf16 rows on odd elements, where pairs cannot be loaded as words.
TEST_P(AttentionOp, RowsMayBeStrided) {
  for (const std::int64_t gap : {1, 8, 64}) {
    expect_both_passes({.lengths = mixed_lengths(), .heads = 3, .head_dim = 24, .dropout = kDropout}, 601, {gap});
  }
}

// 512 is the most BERT has; longer ones take more than one block of keys and rescale what was summed.
TEST_P(AttentionOp, LongSequencesMatchReference) {
  expect_both_passes({.lengths = {{512, 30}, {512, 700}}, .heads = 1, .head_dim = 32, .dropout = {}}, 602);
  expect_both_passes({.lengths = {{40, 30}, {513, 1100}}, .heads = 1, .head_dim = 32, .dropout = kDropout}, 603);
}

// exp of such scores overflows unless the row's maximum is subtracted first.
TEST_P(AttentionOp, ScoresInTheHundredsMatchReference) {
  expect_both_passes({.lengths = {{70, 20}, {70, 600}}, .heads = 2, .head_dim = 32, .dropout = {}, .spread = 24.0}, 604);
}

TEST_P(AttentionOp, EmptyBatchesWriteZerosInTheTail) {
  for (const Lengths& lengths : {Lengths{{}, {}}, Lengths{{0, 0}, {0, 0}}}) {
    const AttentionCase c({.lengths = lengths, .heads = 2, .head_dim = 16, .dropout = kDropout}, dtype(), 605);
    const AttentionRun run(device(), dtype(), c);
    run.forward();
    run.backward();
    const Values zeros(5 * 2 * 16, 0.0);
    EXPECT_EQ(run.out.values(), zeros);
    EXPECT_EQ(run.dquery.values(), zeros);
    EXPECT_EQ(run.dkey.values(), zeros);
    EXPECT_EQ(run.dvalue.values(), zeros);
  }
}

TEST_P(AttentionOp, NanInOneSequenceShowsThereAndNowhereElse) {
  AttentionCase c({.lengths = {{9, 9}, {9, 9}}, .heads = 1, .head_dim = 16, .dropout = {}}, dtype(), 606);
  c.key[3 * 16] = std::numeric_limits<double>::quiet_NaN();
  const AttentionRun run(device(), dtype(), c);
  run.forward();
  const Values out = run.out.values();
  for (std::size_t i = 0; i < 18 * 16; ++i) ASSERT_EQ(std::isnan(out[i]), i < 9 * 16) << i;
}

TEST_P(AttentionOp, ResultsAreBitEqualForAnyThreadCount) {
  const AttentionCase c({.lengths = {{64, 33, 7, 0, 130}, {64, 33, 7, 0, 130}}, .heads = 4, .head_dim = 64, .dropout = kDropout}, dtype(),
                        607);
  testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& device) {
    const AttentionRun run(device, dtype(), c);
    run.forward();
    run.backward();
    std::vector<std::byte> bytes;
    for (const auto* const tensor : {&run.out, &run.lse, &run.dquery, &run.dkey, &run.dvalue}) testing::append(bytes, *tensor);
    return bytes;
  });
}

TEST_P(AttentionOp, ResultsOfASequenceDoNotDependOnItsNeighbours) {
  // The same seed gives the first sequence the same values.
  const AttentionCase alone({.lengths = {{37}, {37}}, .heads = 2, .head_dim = 64, .dropout = kDropout}, dtype(), 608);
  AttentionCase together({.lengths = {{37, 50}, {37, 50}}, .heads = 2, .head_dim = 64, .dropout = kDropout}, dtype(), 609);
  const auto copy = [](const Values& from, Values& to) { std::copy_n(from.begin(), 37 * 2 * 64, to.begin()); };
  copy(alone.query, together.query);
  copy(alone.key, together.key);
  copy(alone.value, together.value);
  const AttentionRun one(device(), dtype(), alone);
  const AttentionRun two(device(), dtype(), together);
  one.forward();
  two.forward();
  Values first = one.out.values();
  Values second = two.out.values();
  first.resize(37 * 2 * 64);
  second.resize(37 * 2 * 64);
  EXPECT_EQ(first, second);
}

TEST_P(AttentionOp, NamesTheArgumentThatIsWrong) {
  using testing::message_of;
  const AttentionCase c({.lengths = {{4}, {4}}, .heads = 2, .head_dim = 16, .dropout = kDropout}, dtype(), 610);
  const AttentionRun run(device(), dtype(), c);
  const auto forward_without = [&](auto change) {
    AttentionForward args = run.forward_arguments();
    change(args);
    return [args, this] { ops().attention_forward(args); };
  };
  EXPECT_EQ(message_of<ShapeError>(forward_without([](AttentionForward& a) { a.out = Tensor(); })), "attention_forward: out is absent");
  EXPECT_EQ(message_of<ShapeError>(forward_without([](AttentionForward& a) { a.keep_bits = Tensor(); })),
            "attention_forward: keep_bits is absent");
  EXPECT_EQ(message_of<ShapeError>(forward_without([](AttentionForward& a) { a.inputs.key = a.inputs.key.rows(0, 3); })),
            "attention_forward: value has shape (9, 2, 16), not (3, 2, 16)");
  EXPECT_EQ(message_of<DtypeError>(forward_without([](AttentionForward& a) { a.inputs.cu_keys = a.lse; })),
            "attention_forward: cu_keys is f32, not i32");
  AttentionBackward backward = run.backward_arguments();
  backward.dquery = Tensor(run.dquery.view()).rows(0, 1);
  EXPECT_EQ(message_of<ShapeError>([&] { ops().attention_backward(backward); }),
            "attention_backward: dquery has shape (1, 2, 16), not (9, 2, 16)");
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(AttentionOp);

class GoldenAttention : public testing::OpTest {};

TEST_P(GoldenAttention, SequencesUpTo512TokensMatchDoublePrecision) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const testing::GoldenOps golden(shared / "golden/ops");
  for (const std::string name : {"attention_d64", "attention_d32"}) {
    SCOPED_TRACE(name);
    const auto lengths = golden.parameters(name).at("lengths").get<std::vector<std::int32_t>>();
    const auto head_dim = golden.parameters(name).at("head_dim").get<std::size_t>();
    AttentionCase c({.lengths = {lengths, lengths}, .heads = 2, .head_dim = head_dim, .dropout = {}, .tail = 0}, Dtype::kF32, 1);
    c.query = golden.values(name, "q");
    c.key = golden.values(name, "k");
    c.value = golden.values(name, "v");
    c.dout = golden.values(name, "do");
    const AttentionRun run(device(), Dtype::kF32, c);
    run.forward();
    run.backward();
    const AttentionTensors<Estimate> in{exact(c.query), exact(c.key), exact(c.value)};
    const AttentionResult<Estimate> bound = reference::attention_forward(c.batch, in);
    const auto gradient_bound = reference::attention_backward(c.batch, in, bound, exact(c.dout));
    // The file's numbers with the reference's error bounds; the file's are rounded to f32 as well.
    const auto expect = [&](const testing::DeviceTensor& got, std::vector<Estimate> want, const Values& numbers, const char* tensor) {
      ASSERT_EQ(numbers.size(), want.size());
      for (std::size_t i = 0; i < want.size(); ++i) want[i] = testing::stored(Estimate(numbers[i], want[i].error), Dtype::kF32);
      testing::expect_close(got.values(), testing::stored(want, Dtype::kF32), tensor);
    };
    expect(run.out, bound.out, golden.values(name, "o"), "o");
    expect(run.lse, bound.lse, golden.log_sums(name), "lse");
    expect(run.dquery, gradient_bound.dquery, golden.values(name, "dq"), "dq");
    expect(run.dkey, gradient_bound.dkey, golden.values(name, "dk"), "dk");
    expect(run.dvalue, gradient_bound.dvalue, golden.values(name, "dv"), "dv");
  }
}

FLASHBERT_FOR_DEVICES(GoldenAttention);

}  // namespace
}  // namespace flashbert
