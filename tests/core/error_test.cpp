#include "core/error.h"

#include <gtest/gtest.h>

namespace flashbert {
namespace {

TEST(Error, CarriesTheDocumentedExitCode) {
  EXPECT_EQ(static_cast<int>(ConfigError("").code()), 2);
  EXPECT_EQ(static_cast<int>(ShapeError("").code()), 2);
  EXPECT_EQ(static_cast<int>(DtypeError("").code()), 2);
  EXPECT_EQ(static_cast<int>(InputError("").code()), 3);
  EXPECT_EQ(static_cast<int>(EnvironmentError("").code()), 4);
  EXPECT_EQ(static_cast<int>(PeerError("").code()), 5);
}

TEST(Error, CheckFormatsItsMessageOnlyOnFailure) {
  EXPECT_NO_THROW(check<InputError>(true, "{} rows", 3));
  try {
    check<InputError>(false, "{} rows of {}", 3, "part");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "3 rows of part");
  }
}

}  // namespace
}  // namespace flashbert
