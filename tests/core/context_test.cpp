#include "core/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <optional>
#include <string>

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
  EXPECT_FALSE(Context({.device = Device::kCpu, .threads = 1}).has_bf16());
}

TEST(Context, NamesTheChoicesForAnUnknownInstructionSet) {
  const IsaCap cap("sse9");
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(detect_isa()); }),
              ::testing::AllOf(::testing::HasSubstr("sse9"), ::testing::HasSubstr("avx512_bf16")));
}

TEST(Context, SetsTheOpenMpThreadCount) {
  const auto context = make_context({.device = Device::kCpu, .threads = 3});
  EXPECT_EQ(context->threads(), 3);
  EXPECT_EQ(omp_get_max_threads(), 3);
}

TEST(Context, UsesAllCoresWhenNotTold) { EXPECT_GE(make_context({})->threads(), 1); }

TEST(Context, RefusesThreadCountsOutOfRange) {
  EXPECT_THAT(message_of<ConfigError>([] { make_context({.device = Device::kCpu, .threads = -1}); }), ::testing::HasSubstr("-1"));
  EXPECT_THAT(message_of<ConfigError>([] { make_context({.device = Device::kCpu, .threads = 1025}); }), ::testing::HasSubstr("1024"));
}

TEST(Context, ParsesDeviceNames) {
  EXPECT_EQ(parse_device("cpu"), Device::kCpu);
  EXPECT_EQ(parse_device("cuda"), Device::kCuda);
  EXPECT_THAT(message_of<ConfigError>([] { static_cast<void>(parse_device("tpu")); }), ::testing::HasSubstr("tpu"));
}

}  // namespace
}  // namespace flashbert
