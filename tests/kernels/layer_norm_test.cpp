#include "reference/layer_norm.h"

#include <gtest/gtest.h>

#include <vector>

#include "op_test.h"

namespace flashbert {
namespace {

using reference::NormExtents;
using testing::as_extent;
using testing::DeviceTensor;
using testing::Estimate;
using testing::exact;
using testing::RowGap;
using testing::SampleIndices;
using testing::TestDevice;
using Values = std::vector<double>;

constexpr Dropout kDropout{.rate = 0.1F, .seed = 0x1234567890abcdefULL, .layer = 5, .site = DropoutSite::kFeedForwardOutput};

/// Rows of two samples, one with an index above 32 bits, and a tail of the last `tail` rows.
reference::RowOrigins make_origins(std::size_t rows, std::size_t tail) {
  reference::RowOrigins origins;
  origins.sample_index = {11, (1ULL << 33) + 5};
  for (std::size_t row = 0; row < rows; ++row) {
    const bool used = row + tail < rows;
    origins.sequence.push_back(!used ? -1 : row % 3 == 0 ? 1 : 0);
    origins.position.push_back(used ? static_cast<std::int32_t>(row) : 0);
  }
  return origins;
}

struct NormCase {
  NormExtents e;
  Values x, residual, gamma, beta, dy, old_dgamma, old_dbeta;
  reference::RowOrigins origins;
  NormCase(const NormExtents& extents, Dtype dtype, std::uint64_t seed, std::size_t tail = 0)
      : e(extents), origins(make_origins(e.rows, tail)) {
    testing::RandomValues random(seed);
    const std::int64_t elements = as_extent(e.rows * e.hidden);
    x = random.values(elements, dtype, 2.0);
    residual = random.values(elements, dtype);
    gamma = random.values(as_extent(e.hidden), Dtype::kF32);
    beta = random.values(as_extent(e.hidden), Dtype::kF32);
    dy = random.values(elements, dtype);
    old_dgamma = random.values(as_extent(e.hidden), Dtype::kF32);
    old_dbeta = random.values(as_extent(e.hidden), Dtype::kF32);
  }
  [[nodiscard]] Shape shape() const { return {as_extent(e.rows), as_extent(e.hidden)}; }
  [[nodiscard]] Shape rows() const { return {as_extent(e.rows)}; }
  [[nodiscard]] Shape hidden() const { return {as_extent(e.hidden)}; }
  [[nodiscard]] Shape keep_shape() const { return {as_extent(e.rows), keep_words(as_extent(e.hidden))}; }
};

constexpr std::array<NormExtents, 7> kExtents{{{1, 8}, {0, 16}, {3, 24}, {9, 128}, {70, 40}, {2, 1024}, {5, 1000}}};

/// z in f32 accuracy, before it is rounded for storage.
std::vector<Estimate> expected_z(const NormCase& c, const Values& mask, bool with_residual) {
  std::vector<Estimate> z = reference::masked(exact(c.x), mask);
  if (with_residual) {
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = z[i] + Estimate(c.residual[i]);
  }
  return z;
}

class LayerNormOp : public testing::OpTest {
 protected:
  void expect_forward(const NormCase& c, const Dropout& dropout, bool with_residual) const {
    const Values mask = reference::hidden_mask(dropout, c.origins, c.e.hidden);
    const DeviceTensor x = typed(c.shape(), c.x);
    const DeviceTensor residual = typed(c.shape(), c.residual);
    const DeviceTensor gamma = f32(c.hidden(), c.gamma);
    const DeviceTensor beta = f32(c.hidden(), c.beta);
    const DeviceTensor y = empty(dtype(), c.shape());
    const DeviceTensor z = empty(dtype(), c.shape());
    const DeviceTensor mean = empty(Dtype::kF32, c.rows());
    const DeviceTensor rstd = empty(Dtype::kF32, c.rows());
    const DeviceTensor keep = empty(Dtype::kU32, c.keep_shape());
    const DeviceTensor sequence = i32(c.origins.sequence);
    const DeviceTensor position = i32(c.origins.position);
    const SampleIndices samples(device(), c.origins.sample_index);
    ops().dropout_add_layer_norm_forward({.y = y,
                                          .z = z,
                                          .mean = mean,
                                          .rstd = rstd,
                                          .keep_bits = dropout.active() ? keep.view() : Tensor(),
                                          .x = x,
                                          .residual = with_residual ? ConstTensor(residual) : ConstTensor(),
                                          .gamma = gamma,
                                          .beta = beta,
                                          .origin = {sequence, position, samples},
                                          .dropout = dropout});
    const auto z_want = expected_z(c, mask, with_residual);
    const auto want = reference::layer_norm_forward(c.e, z_want, exact(c.gamma), exact(c.beta), reference::kNormEps);
    const std::string what = fmt::format("{}x{} residual {}", c.e.rows, c.e.hidden, with_residual);
    testing::expect_close(z.values(), testing::stored(z_want, dtype()), what + " z");
    testing::expect_close(y.values(), testing::stored(want.y, dtype()), what + " y");
    testing::expect_close(mean.values(), want.mean, what + " mean");
    testing::expect_close(rstd.values(), testing::stored(want.rstd, Dtype::kF32), what + " rstd");
    if (dropout.active()) {
      EXPECT_EQ(keep.values(), testing::keep_bits_of(mask, c.e.hidden)) << what;
    }
  }
};

TEST_P(LayerNormOp, ForwardMatchesReference) {
  for (const NormExtents& e : kExtents) {
    for (const bool with_residual : {true, false}) expect_forward(NormCase(e, dtype(), 201), {}, with_residual);
  }
}

TEST_P(LayerNormOp, ForwardMatchesReferenceAndMaskUnderDropout) {
  for (const NormExtents& e : kExtents) expect_forward(NormCase(e, dtype(), 202), kDropout, true);
  expect_forward(NormCase({9, 128}, dtype(), 203), kDropout, false);
}

TEST_P(LayerNormOp, MaskOfAColumnCountThatIsNoMultipleOf32HasNoStrayBits) {
  expect_forward(NormCase({5, 40}, dtype(), 204), kDropout, true);
}

TEST_P(LayerNormOp, AConstantRowGivesBetaAndTheRootOfEpsilon) {
  // What is centred is 0 and the variance too, so that only epsilon is left, 1e-12 by BERT's rule. A sum of 0.1 is rounded on its way, but
  // the kernel corrects its mean by the sum of what is centred, a few units in the last place each, which is exact.
  for (const double value : {0.5, 0.1}) {
    NormCase c({2, 1000}, dtype(), 209);
    c.x.assign(c.x.size(), testing::rounded(value, dtype()));
    c.beta.assign(c.e.hidden, 0.25);
    const DeviceTensor x = typed(c.shape(), c.x);
    const DeviceTensor gamma = f32(c.hidden(), c.gamma);
    const DeviceTensor beta = f32(c.hidden(), c.beta);
    const DeviceTensor y = empty(dtype(), c.shape());
    const DeviceTensor z = empty(dtype(), c.shape());
    const DeviceTensor mean = empty(Dtype::kF32, c.rows());
    const DeviceTensor rstd = empty(Dtype::kF32, c.rows());
    ops().dropout_add_layer_norm_forward({.y = y,
                                          .z = z,
                                          .mean = mean,
                                          .rstd = rstd,
                                          .keep_bits = {},
                                          .x = x,
                                          .residual = {},
                                          .gamma = gamma,
                                          .beta = beta,
                                          .origin = {},
                                          .dropout = {}});
    EXPECT_EQ(y.values(), Values(c.x.size(), 0.25));
    EXPECT_EQ(mean.values(), Values(2, c.x[0]));
    // Epsilon is rounded to f32, which the root halves, and so is the result.
    testing::expect_close(rstd.values(), Values(2, 1e6), {.relative = 1.01 * (0.5 + 1.0) * unit_roundoff(Dtype::kF32)});
  }
}

TEST_P(LayerNormOp, BackwardMatchesReference) {
  for (const NormExtents& e : kExtents) {
    for (const Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
      for (const Dropout& dropout : {Dropout{}, kDropout}) {
        const NormCase c(e, dtype(), 205);
        const Values mask = reference::hidden_mask(dropout, c.origins, e.hidden);
        const Values z = testing::rounded(testing::values_of(expected_z(c, mask, true)), dtype());
        const auto forward = reference::layer_norm_forward(e, z, c.gamma, c.beta, reference::kNormEps);
        const Values mean = testing::rounded(forward.mean, Dtype::kF32);
        const Values rstd = testing::rounded(forward.rstd, Dtype::kF32);
        const bool adds = accumulate == Accumulate::kAdd;
        const DeviceTensor dz = empty(dtype(), c.shape());
        const DeviceTensor dx = empty(dtype(), c.shape());
        const DeviceTensor dgamma = adds ? f32(c.hidden(), c.old_dgamma) : empty(Dtype::kF32, c.hidden());
        const DeviceTensor dbeta = adds ? f32(c.hidden(), c.old_dbeta) : empty(Dtype::kF32, c.hidden());
        const DeviceTensor dy_device = typed(c.shape(), c.dy);
        const DeviceTensor z_device = typed(c.shape(), z);
        const DeviceTensor mean_device = f32(c.rows(), mean);
        const DeviceTensor rstd_device = f32(c.rows(), rstd);
        const DeviceTensor gamma = f32(c.hidden(), c.gamma);
        const DeviceTensor keep(device(), Dtype::kU32, c.keep_shape(), testing::keep_bits_of(mask, e.hidden));
        ops().dropout_add_layer_norm_backward({.dz = dz,
                                               .dx = dx,
                                               .dgamma = dgamma,
                                               .dbeta = dbeta,
                                               .dy = dy_device,
                                               .z = z_device,
                                               .mean = mean_device,
                                               .rstd = rstd_device,
                                               .gamma = gamma,
                                               .keep_bits = dropout.active() ? ConstTensor(keep) : ConstTensor(),
                                               .dropout = dropout,
                                               .accumulate = accumulate});
        auto want = reference::layer_norm_backward<Estimate>(e, exact(c.dy), {exact(z), exact(mean), exact(rstd), exact(c.gamma)});
        if (adds) {
          for (std::size_t i = 0; i < e.hidden; ++i) {
            want.dgamma[i] = want.dgamma[i] + Estimate(c.old_dgamma[i]);
            want.dbeta[i] = want.dbeta[i] + Estimate(c.old_dbeta[i]);
          }
        }
        const std::string what = fmt::format("{}x{} add {} rate {}", e.rows, e.hidden, adds, dropout.rate);
        testing::expect_close(dz.values(), testing::stored(want.dz, dtype()), what + " dz");
        testing::expect_close(dx.values(), testing::stored(reference::masked(want.dz, mask), dtype()), what + " dx");
        testing::expect_close(dgamma.values(), want.dgamma, what + " dgamma");
        testing::expect_close(dbeta.values(), want.dbeta, what + " dbeta");
      }
    }
  }
}

TEST_P(LayerNormOp, BackwardMayOverwriteItsInput) {
  const NormCase c({70, 40}, dtype(), 206);
  const Values mask = reference::hidden_mask(kDropout, c.origins, c.e.hidden);
  const auto run = [&](bool aliased) {
    const DeviceTensor dy = typed(c.shape(), c.dy);
    const DeviceTensor own_dz = empty(dtype(), c.shape());
    const DeviceTensor own_dx = empty(dtype(), c.shape());
    const DeviceTensor z = typed(c.shape(), c.x);
    const DeviceTensor mean = f32(c.rows(), Values(c.e.rows, 0.25));
    const DeviceTensor rstd = f32(c.rows(), Values(c.e.rows, 0.5));
    const DeviceTensor gamma = f32(c.hidden(), c.gamma);
    const DeviceTensor dgamma = empty(Dtype::kF32, c.hidden());
    const DeviceTensor dbeta = empty(Dtype::kF32, c.hidden());
    const DeviceTensor keep(device(), Dtype::kU32, c.keep_shape(), testing::keep_bits_of(mask, c.e.hidden));
    ops().dropout_add_layer_norm_backward({.dz = aliased ? dy.view() : own_dz.view(),
                                           .dx = own_dx,
                                           .dgamma = dgamma,
                                           .dbeta = dbeta,
                                           .dy = dy,
                                           .z = z,
                                           .mean = mean,
                                           .rstd = rstd,
                                           .gamma = gamma,
                                           .keep_bits = keep,
                                           .dropout = kDropout,
                                           .accumulate = Accumulate::kOverwrite});
    std::vector<std::byte> bytes;
    testing::append(bytes, aliased ? dy : own_dz);
    for (const DeviceTensor* tensor : {&own_dx, &dgamma, &dbeta}) testing::append(bytes, *tensor);
    return bytes;
  };
  EXPECT_TRUE(run(true) == run(false));
}

TEST_P(LayerNormOp, ZMayBeXOrAbsentAndRowsMayBeStrided) {
  const NormCase c({9, 128}, dtype(), 207);
  const DeviceTensor gamma = f32(c.hidden(), c.gamma);
  const DeviceTensor beta = f32(c.hidden(), c.beta);
  const DeviceTensor mean = empty(Dtype::kF32, c.rows());
  const DeviceTensor rstd = empty(Dtype::kF32, c.rows());
  const DeviceTensor residual = typed(c.shape(), c.residual, RowGap{8});
  const DeviceTensor plain_y = empty(dtype(), c.shape());
  const DeviceTensor x = typed(c.shape(), c.x, RowGap{24});
  DropoutAddLayerNormForward args;
  args.y = plain_y;
  args.mean = mean;
  args.rstd = rstd;
  args.x = x;
  args.residual = residual;
  args.gamma = gamma;
  args.beta = beta;
  ops().dropout_add_layer_norm_forward(args);
  const DeviceTensor y = empty(dtype(), c.shape(), RowGap{16});
  args.y = y;
  args.z = x;
  ops().dropout_add_layer_norm_forward(args);
  EXPECT_TRUE(y.bytes() == plain_y.bytes());
  testing::expect_close(x.values(), testing::stored(expected_z(c, Values(c.x.size(), 1.0), true), dtype()), "z over x");
}

TEST_P(LayerNormOp, TailRowsAreKeptUndroppedAndTheirZeroGradientStaysZero) {
  constexpr std::size_t kUsed = 33;
  const NormCase c({static_cast<std::size_t>(bucket_rows(kUsed)), 64}, dtype(), 208, static_cast<std::size_t>(bucket_rows(kUsed)) - kUsed);
  expect_forward(c, kDropout, true);
  Values dy = c.dy;
  std::fill(dy.begin() + kUsed * 64, dy.end(), 0.0);
  const DeviceTensor dy_device = typed(c.shape(), dy);
  const DeviceTensor z = typed(c.shape(), c.x);
  const DeviceTensor mean = f32(c.rows(), Values(c.e.rows, 0.0));
  const DeviceTensor rstd = f32(c.rows(), Values(c.e.rows, 1.0));
  const DeviceTensor gamma = f32(c.hidden(), c.gamma);
  const DeviceTensor keep(device(), Dtype::kU32, c.keep_shape(),
                          testing::keep_bits_of(reference::hidden_mask(kDropout, c.origins, 64), 64));
  const DeviceTensor dz = empty(dtype(), c.shape());
  const DeviceTensor dx = empty(dtype(), c.shape());
  const DeviceTensor dgamma = empty(Dtype::kF32, c.hidden());
  const DeviceTensor dbeta = empty(Dtype::kF32, c.hidden());
  ops().dropout_add_layer_norm_backward({.dz = dz,
                                         .dx = dx,
                                         .dgamma = dgamma,
                                         .dbeta = dbeta,
                                         .dy = dy_device,
                                         .z = z,
                                         .mean = mean,
                                         .rstd = rstd,
                                         .gamma = gamma,
                                         .keep_bits = keep,
                                         .dropout = kDropout,
                                         .accumulate = Accumulate::kOverwrite});
  for (const DeviceTensor* tensor : {&dz, &dx}) {
    const Values values = tensor->values();
    for (std::size_t i = kUsed * 64; i < values.size(); ++i) ASSERT_EQ(values[i], 0.0) << i;
  }
}

TEST_P(LayerNormOp, IsBitEqualForAnyThreadCount) {
  const Dtype type = dtype();
  const NormCase c({300, 72}, type, 209);
  testing::expect_same_bytes_for_any_thread_count(GetParam().device, [&](const TestDevice& on) {
    const DeviceTensor x(on, type, c.shape(), c.x);
    const DeviceTensor residual(on, type, c.shape(), c.residual);
    const DeviceTensor gamma(on, Dtype::kF32, c.hidden(), c.gamma);
    const DeviceTensor beta(on, Dtype::kF32, c.hidden(), c.beta);
    const DeviceTensor y(on, type, c.shape());
    const DeviceTensor z(on, type, c.shape());
    const DeviceTensor mean(on, Dtype::kF32, c.rows());
    const DeviceTensor rstd(on, Dtype::kF32, c.rows());
    const DeviceTensor keep(on, Dtype::kU32, c.keep_shape());
    const DeviceTensor sequence = make_i32(on, c.origins.sequence);
    const DeviceTensor position = make_i32(on, c.origins.position);
    const SampleIndices samples(on, c.origins.sample_index);
    on.ops().dropout_add_layer_norm_forward({.y = y,
                                             .z = z,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .keep_bits = keep,
                                             .x = x,
                                             .residual = residual,
                                             .gamma = gamma,
                                             .beta = beta,
                                             .origin = {sequence, position, samples},
                                             .dropout = kDropout});
    const DeviceTensor dy(on, type, c.shape(), c.dy);
    const DeviceTensor dz(on, type, c.shape());
    const DeviceTensor dx(on, type, c.shape());
    const DeviceTensor dgamma(on, Dtype::kF32, c.hidden());
    const DeviceTensor dbeta(on, Dtype::kF32, c.hidden());
    on.ops().dropout_add_layer_norm_backward({.dz = dz,
                                              .dx = dx,
                                              .dgamma = dgamma,
                                              .dbeta = dbeta,
                                              .dy = dy,
                                              .z = z,
                                              .mean = mean,
                                              .rstd = rstd,
                                              .gamma = gamma,
                                              .keep_bits = keep,
                                              .dropout = kDropout,
                                              .accumulate = Accumulate::kOverwrite});
    std::vector<std::byte> bytes;
    for (const DeviceTensor* tensor : {&y, &z, &mean, &rstd, &keep, &dz, &dx, &dgamma, &dbeta}) testing::append(bytes, *tensor);
    return bytes;
  });
}

FLASHBERT_FOR_DEVICES_AND_DTYPES(LayerNormOp);

}  // namespace
}  // namespace flashbert
