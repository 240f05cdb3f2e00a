#include "core/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace flashbert {
namespace {

// Known answers: RFC 1321 (MD5) and FIPS 180-2 (SHA-256).
TEST(Digest, GivesTheKnownAnswers) {
  Digest md5(Digest::Algorithm::kMd5);
  md5.update("abc");
  EXPECT_EQ(md5.hex(), "900150983cd24fb0d6963f7d28e17f72");
  Digest sha(Digest::Algorithm::kSha256);
  sha.update("abc");
  EXPECT_EQ(sha.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest nothing(Digest::Algorithm::kSha256);
  EXPECT_EQ(nothing.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, DoesNotDependOnHowTheDataIsCut) {
  const std::string text(1000, 'x');
  Digest whole(Digest::Algorithm::kSha256);
  whole.update(text);
  Digest cut(Digest::Algorithm::kSha256);
  cut.update(text.data(), 1);
  Digest moved(std::move(cut));
  moved.update(text.data() + 1, 0);
  moved.update(text.data() + 1, 999);
  EXPECT_EQ(moved.hex(), whole.hex());
}

}  // namespace
}  // namespace flashbert
