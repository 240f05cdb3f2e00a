#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu/cpu_context.h"
#include "core/error.h"

namespace flashbert {
namespace {

/// Sets FLASHBERT_MAX_ISA and puts the old value back.
class IsaCap {
 public:
  explicit IsaCap(const char* value) {
    if (const char* const old = std::getenv(kName)) old_ = old;
    ::setenv(kName, value, 1);
  }
  ~IsaCap() {
    if (old_) {
      ::setenv(kName, old_->c_str(), 1);
    } else {
      ::unsetenv(kName);
    }
  }
  IsaCap(const IsaCap&) = delete;
  IsaCap& operator=(const IsaCap&) = delete;

 private:
  static constexpr const char* kName = "FLASHBERT_MAX_ISA";
  std::optional<std::string> old_;
};

template <class E, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Context, CapsTheInstructionSet) {
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    const IsaCap cap(std::string(name_of(isa)).c_str());
    EXPECT_LE(detect_isa(), isa);
  }
  const IsaCap lowest("avx2");
  EXPECT_EQ(detect_isa(), Isa::kAvx2);
  EXPECT_FALSE(CpuContext(1).has_bf16());
  EXPECT_EQ(CpuContext(1).arithmetic(), "avx2");
}

TEST(Context, NamesTheChoicesForAnUnknownInstructionSet) {
  const IsaCap cap("sse9");
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(detect_isa()); }),
              ::testing::AllOf(::testing::HasSubstr("sse9"), ::testing::HasSubstr("avx512_bf16")));
}

TEST(Context, SetsTheOpenMpThreadCount) {
  const auto context = make_context({.device = Device::kCpu, .threads = 3});
  EXPECT_EQ(dynamic_cast<const CpuContext&>(*context).threads(), 3);
  EXPECT_THAT(context->description(), ::testing::HasSubstr("device cpu, 3 threads"));
  EXPECT_EQ(omp_get_max_threads(), 3);
}

TEST(Context, UsesAllCoresWhenNotTold) { EXPECT_GE(CpuContext().threads(), 1); }

TEST(Context, RefusesThreadCountsOutOfRange) {
  EXPECT_THAT(message_of<ConfigError>([] { make_context({.device = Device::kCpu, .threads = -1}); }), ::testing::HasSubstr("-1"));
  EXPECT_THAT(message_of<ConfigError>([] { make_context({.device = Device::kCpu, .threads = 1025}); }), ::testing::HasSubstr("1024"));
}

TEST(Context, ParsesDeviceNames) {
  EXPECT_EQ(parse_device("cpu"), Device::kCpu);
  EXPECT_EQ(parse_device("cuda"), Device::kCuda);
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(parse_device("tpu")); }), ::testing::HasSubstr("tpu"));
}

TEST(Context, HandsOutZeroedMemoryOnItsBorders) {
  CpuContext context(2);
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kPinned}) {
    const Buffer buffer = context.allocate(1000003, kind);
    EXPECT_EQ(buffer.bytes(), 1000003);
    EXPECT_EQ(buffer.kind(), kind);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0U);
    const Tensor all = buffer.tensor(Dtype::kU8, {1000003});
    EXPECT_EQ(std::count(all.data<std::uint8_t>(), all.data<std::uint8_t>() + 1000003, 0), 1000003);
    EXPECT_EQ(buffer.tensor(Dtype::kF32, {2, 3}, 512).raw(), static_cast<std::byte*>(buffer.data()) + 512);
    EXPECT_THROW(static_cast<void>(buffer.tensor(Dtype::kF32, {250001})), ShapeError);
    EXPECT_THROW(static_cast<void>(buffer.tensor(Dtype::kU8, {1}, -1)), ShapeError);
  }
}

TEST(Context, BuffersMoveAndNeverShare) {
  CpuContext context(1);
  Buffer first = context.allocate(64, MemoryKind::kDevice);
  first.tensor(Dtype::kI32, {16}).data<std::int32_t>()[15] = 7;
  void* const place = first.data();
  Buffer second(std::move(first));
  EXPECT_EQ(second.data(), place);
  first = context.allocate(64, MemoryKind::kDevice);
  EXPECT_NE(first.data(), place);
  first = std::move(second);
  EXPECT_EQ(first.data(), place);
  EXPECT_EQ(first.tensor(Dtype::kI32, {16}).data<std::int32_t>()[15], 7);
}

TEST(Context, CopiesBetweenAnyMemory) {
  CpuContext context(2);
  // Above and below the size from which threads share the work.
  for (const std::int64_t elements : {0, 1, 70001, 1 << 20}) {
    const Buffer pinned = context.allocate(4 * elements, MemoryKind::kPinned);
    const Buffer device = context.allocate(4 * elements, MemoryKind::kDevice);
    std::vector<std::int32_t> values(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(3 * i + 1);
    context.write(pinned.tensor(Dtype::kI32, {elements}), values.data());
    context.copy(Stream::kCopy, device.tensor(Dtype::kI32, {elements}), pinned.tensor(Dtype::kI32, {elements}));
    std::vector<std::int32_t> back(values.size());
    context.read(back.data(), device.tensor(Dtype::kI32, {elements}));
    EXPECT_EQ(back, values);
  }
}

TEST(Context, RefusesCopiesThatDoNotFit) {
  CpuContext context(1);
  const Buffer buffer = context.allocate(4096, MemoryKind::kDevice);
  const Tensor floats = buffer.tensor(Dtype::kF32, {8, 8});
  const auto copy = [&](Tensor to, ConstTensor from) { context.copy(Stream::kCompute, to, from); };
  EXPECT_THAT(message_of<ShapeError>([&] { copy({}, floats); }), ::testing::HasSubstr("to is absent"));
  EXPECT_THAT(message_of<ShapeError>([&] { copy(floats, {}); }), ::testing::HasSubstr("from is absent"));
  EXPECT_THAT(message_of<ShapeError>([&] { copy(floats.rows(0, 7), floats); }), ::testing::HasSubstr("(8, 8)"));
  EXPECT_THAT(message_of<ShapeError>([&] { copy(floats.columns(0, 4), floats.columns(0, 4)); }), ::testing::HasSubstr("contiguous"));
  EXPECT_THAT(message_of<DtypeError>([&] { copy(floats, buffer.tensor(Dtype::kI32, {64})); }), ::testing::HasSubstr("i32"));
}

}  // namespace
}  // namespace flashbert
