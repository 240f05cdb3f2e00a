#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/fingerprint.h"
#include "data/shard_description.h"
#include "data/shard_reader.h"
#include "data_support.h"
#include "support/shared_data.h"

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;

constexpr SampleLimits kBertLimits{.vocab = 30522, .max_positions = 512, .type_vocab = 2};
const char* const kReadableFolders[] = {"varlength/", "fixed-v1/", "fixed-v07/", "eval_varlength/", "gzip/"};

nlohmann::json expected_values(const fs::path& shards) { return nlohmann::json::parse(std::ifstream(shards / "expected.json")); }

bool readable(const std::string& name) {
  return name.find(".hdf5") != std::string::npos && std::any_of(std::begin(kReadableFolders), std::end(kReadableFolders),
                                                                [&](const char* folder) { return name.starts_with(folder); });
}

void expect_counts(const SampleStore& store, const nlohmann::json& expected) {
  std::int64_t segment_1 = 0, masked = 0, random_next = 0, longest = 0;
  for (std::int64_t row = 0; row < store.size(); ++row) {
    const SampleView sample = store[row];
    segment_1 += std::count(sample.segment_ids.begin(), sample.segment_ids.end(), 1);
    masked += static_cast<std::int64_t>(sample.masked_positions.size());
    random_next += sample.next_sentence_label;
    longest = std::max(longest, static_cast<std::int64_t>(sample.token_ids.size()));
  }
  EXPECT_EQ(store.size(), expected.at("samples"));
  EXPECT_EQ(store.tokens(), expected.at("real_tokens"));
  EXPECT_EQ(segment_1, expected.at("segment_1_tokens"));
  EXPECT_EQ(masked, expected.at("masked_tokens"));
  EXPECT_EQ(random_next, expected.at("nsp_random"));
  EXPECT_EQ(longest, expected.at("max_length"));
}

TEST(RealShards, CountsAreTheExpectedOnes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  int count = 0;
  const nlohmann::json files = expected_values(shards).at("files");
  for (const auto& [name, expected] : files.items()) {
    if (!readable(name)) continue;
    SCOPED_TRACE(name);
    expect_counts(read_shard(inspect_shard(shards / name), kBertLimits), expected);
    ++count;
  }
  EXPECT_EQ(count, 14);
}

TEST(RealShards, FingerprintsAreTheExpectedOnes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  const nlohmann::json files = expected_values(shards).at("files");
  for (const auto& [name, expected] : files.items()) {
    if (!readable(name)) continue;
    SCOPED_TRACE(name);
    for (const auto& [kind, digest] : fingerprints(shards / name)) EXPECT_EQ(digest, expected.at(kind)) << kind;
  }
}

TEST(RealShards, SetsOfBothLayoutsHoldTheSameSamples) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  const nlohmann::json sets = expected_values(shards).at("sets");
  for (const char* const set : {"fixed-v1 training parts", "varlength"}) {
    SampleFingerprint fingerprint;
    for (const auto& file : sets.at(set).at("files")) {
      fingerprint.add(read_shard(inspect_shard(shards / file.get<std::string>()), kBertLimits));
    }
    EXPECT_EQ(fingerprint.samples_sorted_sha256(), sets.at(set).at("samples_sorted_sha256")) << set;
  }
}

TEST(RealShards, DescriptionsAreTheExpectedOnes) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  const nlohmann::json files = expected_values(shards).at("files");
  for (const auto& [name, expected] : files.items()) {
    if (!expected.contains("datasets")) continue;
    SCOPED_TRACE(name);
    const auto descriptions = describe_datasets(shards / name);
    EXPECT_EQ(descriptions.size(), expected.at("datasets").size());
    for (const DatasetDescription& description : descriptions) {
      const nlohmann::json& want = expected.at("datasets").at(description.name);
      EXPECT_EQ(description.type, want.at("type"));
      EXPECT_EQ(description.shape, want.at("shape").get<std::vector<std::int64_t>>());
      const std::string filter = want.contains("filter") ? ", " + want.at("filter").get<std::string>() : "";
      EXPECT_EQ(description.storage, want.at("storage").get<std::string>() + filter);
    }
  }
}

TEST(RealShards, LayoutsAreToldByContent) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  const ShardInfo varlength = inspect_shard(shards / "varlength" / "part_00000_of_00003.hdf5");
  EXPECT_EQ(varlength.layout, ShardLayout::kVarlength);
  EXPECT_EQ(varlength.seq_len, 0);
  const ShardInfo fixed = inspect_shard(shards / "fixed-v1" / "edge-seq128.hdf5");
  EXPECT_EQ(fixed.layout, ShardLayout::kFixed);
  EXPECT_FALSE(fixed.wide_ids);
  EXPECT_EQ(fixed.seq_len, 128);
  EXPECT_EQ(fixed.max_predictions, 20);
  EXPECT_TRUE(inspect_shard(shards / "fixed-v07" / "part_0_of_3.hdf5").wide_ids);
}

TEST(RealShards, RowsCutByNarrowSumsAreRefusedWithTheirRow) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path file = shared / "data" / "shards" / "broken" / "numpy2" / "part_00000_of_00003.hdf5";
  const std::string message = message_of<InputError>([&] { read_shard(inspect_shard(file), kBertLimits); });
  EXPECT_THAT(message, HasSubstr(file.string()));
  EXPECT_THAT(message, HasSubstr("row 1 has length 0")) << "512 tokens in 8 bits";
}

TEST(RealShards, EmptyRowsAreRefusedWithTheirRow) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path file = shared / "data" / "shards" / "broken" / "divisible" / "part_00005_of_00005.hdf5";
  EXPECT_THAT(message_of<InputError>([&] { read_shard(inspect_shard(file), kBertLimits); }), HasSubstr("row 1 has length 0"));
}

TEST(RealShards, PackedLayoutsAreRefusedByName) {
  FLASHBERT_SHARED_OR_SKIP(shared);
  const fs::path shards = shared / "data" / "shards";
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(shards / "packed" / "part_00000"); }), HasSubstr("has the packed layout"));
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(shards / "habana" / "mixed_strategies_part_0.hdf5"); }),
              HasSubstr("Habana's packed layout"));
}

}  // namespace
}  // namespace flashbert
