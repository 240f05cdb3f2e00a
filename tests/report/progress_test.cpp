#include "report/progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace flashbert::testing {
namespace {

TEST(Progress, TextHoldsEveryFigureWithItsUnit) {
  EXPECT_EQ(progress_text({.step = 120,
                           .max_steps = 600,
                           .samples = 3840,
                           .loss = 4.21,
                           .accuracy = 0.3124,
                           .samples_per_s = 4.0,
                           .tokens_per_s = 21'000.4}),
            // 480 steps of 32 samples at 4 samples/s are 3840 s.
            "step 120/600  samples 3840  loss 4.210  accuracy 0.312  4 samples/s  21000 tokens/s  ETA 01:04:00");
}

TEST(Progress, UnknownIsLeftOut) {
  EXPECT_EQ(progress_text({.step = 5, .samples = 40, .loss = 1.0, .samples_per_s = 8.0, .tokens_per_s = 80.0}),
            "step 5  samples 40  loss 1.000  8 samples/s  80 tokens/s");
  EXPECT_EQ(progress_text({.step = 0, .max_steps = 9}).find("ETA"), std::string::npos);
}

TEST(Progress, EtaIsNeverNegative) {
  const std::string text = progress_text({.step = 10, .max_steps = 8, .samples = 10, .samples_per_s = 1.0});
  EXPECT_NE(text.find("ETA 00:00:00"), std::string::npos) << text;
}

TEST(Progress, LossThatIsNotANumberIsShownAsSuch) {
  EXPECT_NE(progress_text({.step = 1, .samples = 1, .loss = std::numeric_limits<double>::quiet_NaN()}).find("loss nan"), std::string::npos);
}

TEST(Progress, DisabledLineIsNeverDue) { EXPECT_FALSE(ProgressLine(/*enabled=*/false).due()); }

}  // namespace
}  // namespace flashbert::testing
