#include "support/lagging_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace flashbert::testing {
namespace {

constexpr std::int64_t kElements = 64;

/// Floats in pinned memory, a copy of them on the device, and the device's double of them.
class LaggingDevice : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  LaggingDevice()
      : context_(GetParam() == 0 ? Lag::kLatest : Lag::kRandom, 1, GetParam()),
        ops_(make_lagging_ops(context_)),
        staging_(context_.allocate(kElements * 4, MemoryKind::kPinned)),
        input_(context_.allocate(kElements * 4, MemoryKind::kDevice)),
        result_(context_.allocate(kElements * 4, MemoryKind::kDevice)) {}

  static Tensor floats(const Buffer& buffer) { return buffer.tensor(Dtype::kF32, {kElements}); }
  void stage(float first) { std::iota(floats(staging_).data<float>(), floats(staging_).data<float>() + kElements, first); }
  void enqueue_doubling() { ops_->scaled_copy({.y = floats(result_), .x = floats(input_), .scale = {}, .factor = 2.0F}); }
  [[nodiscard]] std::vector<float> read_result() {
    std::vector<float> values(kElements);
    context_.read(values.data(), floats(result_));
    return values;
  }
  static std::vector<float> doubled(float first) {
    std::vector<float> values(kElements);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2.0F * (first + static_cast<float>(i));
    return values;
  }

  LaggingContext context_;
  std::unique_ptr<Ops> ops_;
  Buffer staging_, input_, result_;
};

TEST_P(LaggingDevice, RunsWhatEventsOrder) {
  const auto uploaded = context_.make_event();
  for (float first = 1.0F; first < 20.0F; first += 1.0F) {
    context_.wait(*uploaded);
    stage(first);
    context_.copy(Stream::kCopy, floats(input_), floats(staging_));
    context_.record(*uploaded, Stream::kCopy);
    context_.order(Stream::kCompute, *uploaded);
    enqueue_doubling();
    EXPECT_EQ(read_result(), doubled(first));
  }
}

TEST_P(LaggingDevice, StagingReusedBeforeItsCopyIsSeen) {
  bool seen = false;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto uploaded = context_.make_event();
    stage(1.0F);
    context_.copy(Stream::kCopy, floats(input_), floats(staging_));
    context_.record(*uploaded, Stream::kCopy);
    stage(100.0F);  // without waiting for the event
    context_.order(Stream::kCompute, *uploaded);
    enqueue_doubling();
    seen = seen || read_result() != doubled(1.0F);
  }
  EXPECT_TRUE(seen);
}

TEST_P(LaggingDevice, AMissingEventBetweenCopyAndComputeIsSeen) {
  bool seen = false;
  for (int attempt = 0; attempt < 20; ++attempt) {
    stage(static_cast<float>(attempt + 1));
    context_.copy(Stream::kCopy, floats(input_), floats(staging_));
    enqueue_doubling();  // without order(kCompute, uploaded)
    const auto computed = context_.make_event();
    context_.record(*computed, Stream::kCompute);
    context_.wait(*computed);
    seen = seen || read_result() != doubled(static_cast<float>(attempt + 1));
  }
  EXPECT_TRUE(seen);
}

TEST_P(LaggingDevice, AResultReadBeforeItsEventIsSeen) {
  const Buffer told = context_.allocate(kElements * 4, MemoryKind::kPinned);
  bool seen = false;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto uploaded = context_.make_event();
    stage(static_cast<float>(attempt + 1));
    context_.copy(Stream::kCopy, floats(input_), floats(staging_));
    context_.record(*uploaded, Stream::kCopy);
    context_.order(Stream::kCompute, *uploaded);
    enqueue_doubling();
    context_.copy(Stream::kCompute, floats(told), floats(result_));
    const auto want = doubled(static_cast<float>(attempt + 1));
    seen = seen || std::memcmp(want.data(), told.data(), want.size() * sizeof(float)) != 0;  // without waiting
    context_.synchronize();
    EXPECT_EQ(std::memcmp(want.data(), told.data(), want.size() * sizeof(float)), 0);
  }
  EXPECT_TRUE(seen);
}

TEST_P(LaggingDevice, CountsWaitsAndCopies) {
  const auto event = context_.make_event();
  context_.wait(*event);  // never recorded
  stage(1.0F);
  context_.copy(Stream::kCopy, floats(input_), floats(staging_));
  context_.copy(Stream::kCopy, floats(result_), floats(input_));
  EXPECT_EQ(context_.counts().waits, 0);
  EXPECT_EQ(context_.counts().uploads, 1);
  static_cast<void>(read_result());
  EXPECT_EQ(context_.counts().waits, 1);
  EXPECT_EQ(context_.counts().downloads, 1);
}

TEST_P(LaggingDevice, ItsMemoryIsClosedToTheHost) {
  EXPECT_THROW(static_cast<void>(floats(input_).data<float>()), BrokenPromise);
  const auto* const raw = static_cast<const volatile float*>(input_.data());
  EXPECT_DEATH(static_cast<void>(raw[0]), "");
}

TEST_P(LaggingDevice, UsedStagingIsPoisoned) {
  stage(1.0F);
  context_.copy(Stream::kCopy, floats(input_), floats(staging_));
  context_.synchronize();
  const auto* const bytes = static_cast<const std::uint8_t*>(staging_.data());
  EXPECT_THAT(std::vector<std::uint8_t>(bytes, bytes + 4 * kElements), ::testing::Each(0xa5));
}

INSTANTIATE_TEST_SUITE_P(Seeds, LaggingDevice, ::testing::Values(0, 1, 2, 3), [](const ::testing::TestParamInfo<std::uint64_t>& seed) {
  return seed.param == 0 ? std::string("latest") : "random" + std::to_string(seed.param);
});

}  // namespace
}  // namespace flashbert::testing
