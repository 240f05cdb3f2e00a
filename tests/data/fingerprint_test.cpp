#include "data/fingerprint.h"

#include <gtest/gtest.h>

#include "core/digest.h"
#include "data_support.h"

namespace flashbert {
namespace {

std::string digest_of(std::string_view text, Digest::Algorithm algorithm) {
  Digest digest(algorithm);
  digest.update(text);
  return digest.hex();
}

TEST(Fingerprint, SampleLinesAreThoseOfTheDefinition) {
  const testing::OwnedSample sample{
      .ids = {101, 7592, 103, 102, 2088, 102}, .segments = {0, 0, 0, 0, 1, 1}, .positions = {2}, .labels = {1010}, .next = 0};
  SampleFingerprint fingerprint;
  fingerprint.add(sample.view());
  const std::string line = digest_of("101,7592,103,102,2088,102|0,0,0,0,1,1|2|1010|0\n", Digest::Algorithm::kSha256);
  EXPECT_EQ(fingerprint.samples_sorted_sha256(), digest_of(line + "\n", Digest::Algorithm::kSha256));
  EXPECT_EQ(fingerprint.samples_sha256(), line);
}

TEST(Fingerprint, SortedDigestDoesNotDependOnOrder) {
  const SampleStore samples = testing::random_samples(9, 1);
  SampleFingerprint forward, backward;
  for (std::int64_t row = 0; row < 9; ++row) {
    forward.add(samples[row]);
    backward.add(samples[8 - row]);
  }
  EXPECT_EQ(forward.samples_sorted_sha256(), backward.samples_sorted_sha256());
  EXPECT_NE(forward.samples_sha256(), backward.samples_sha256());
}

TEST(Fingerprint, RowsAreWrittenAsPythonPrintsLists) {
  const testing::TestFolder folder;
  testing::write_one(folder / "part", testing::small_sample());
  const std::string row = digest_of("[2, 4, 11, 3, 12, 4, 3]", Digest::Algorithm::kMd5);
  EXPECT_EQ(hdf5_md5(folder / "part"), digest_of("['" + row + "', '" + row + "']", Digest::Algorithm::kMd5));
}

}  // namespace
}  // namespace flashbert
