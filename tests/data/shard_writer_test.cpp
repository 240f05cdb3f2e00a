#include "data/shard_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "data/shard_description.h"
#include "data/shard_reader.h"
#include "data_support.h"

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TestFolder;

std::string text_of(const std::vector<DatasetDescription>& datasets) {
  std::string text;
  for (const DatasetDescription& dataset : datasets) {
    text += fmt::format("{}:{}:{}:{}\n", dataset.name, dataset.type, dataset.storage, fmt::join(dataset.shape, ":"));
  }
  return text;
}

TEST(ShardWriter, DatasetsAreThoseOfTheReference) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(3, 1);
  testing::write_all(folder / "a", samples, WrittenLayout::kVarlength);
  EXPECT_EQ(text_of(describe_datasets(folder / "a")),
            "input_ids:vlen int16:contiguous:3\nmasked_lm_ids:vlen int16:contiguous:3\nmasked_lm_positions:vlen int16:contiguous:3\n"
            "next_sentence_labels:int8:contiguous:3\nsegment_ids:vlen int8:contiguous:3\n");
  testing::write_all(folder / "b", samples, WrittenLayout::kFixed);
  EXPECT_EQ(text_of(describe_datasets(folder / "b")),
            "input_ids:int16:contiguous:3:24\ninput_mask:int8:contiguous:3:24\nmasked_lm_ids:int16:contiguous:3:4\n"
            "masked_lm_positions:int16:contiguous:3:4\nnext_sentence_labels:int8:contiguous:3\nsegment_ids:int8:contiguous:3:24\n");
  testing::write_all(folder / "c", samples, WrittenLayout::kFixedInt32);
  EXPECT_EQ(text_of(describe_datasets(folder / "c")),
            "input_ids:int32:contiguous:3:24\ninput_mask:int8:contiguous:3:24\nmasked_lm_ids:int32:contiguous:3:4\n"
            "masked_lm_positions:int32:contiguous:3:4\nnext_sentence_labels:int8:contiguous:3\nsegment_ids:int8:contiguous:3:24\n");
}

TEST(ShardWriter, ShardsTogetherHoldAllSamplesInOrder) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(11, 3);
  const auto paths = write_shards(folder / "made/with/parents", samples, 3, testing::test_format(WrittenLayout::kVarlength));
  EXPECT_EQ(paths, list_shards(folder / "made/with/parents"));
  std::int64_t next = 0;
  for (const fs::path& path : paths) {
    const SampleStore shard = read_shard(inspect_shard(path), {});
    for (std::int64_t row = 0; row < shard.size(); ++row) testing::expect_equal(shard[row], samples[next++]);
  }
  EXPECT_EQ(next, 11);
}

TEST(ShardWriter, EmptyShardsCanBeReadBack) {
  const TestFolder folder;
  for (const WrittenLayout layout : {WrittenLayout::kVarlength, WrittenLayout::kFixed}) {
    testing::write_all(folder / "empty", SampleStore(), layout);
    EXPECT_EQ(read_shard(inspect_shard(folder / "empty"), {}).size(), 0);
  }
}

TEST(ShardWriter, SizesFollowTheReferencesRule) {
  EXPECT_EQ(shard_sizes(11, 3), (std::vector<std::int64_t>{3, 4, 4}));
  EXPECT_EQ(shard_sizes(12, 3), (std::vector<std::int64_t>{4, 4, 4}));
  EXPECT_EQ(shard_sizes(2, 3), (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_THAT(message_of<ConfigError>([] { shard_sizes(2, 0); }), HasSubstr("shards is 0"));
}

TEST(ShardWriter, NamesAreThoseOfTheReference) {
  EXPECT_EQ(shard_name(WrittenLayout::kVarlength, 3, 4320), "part_00003_of_04320.hdf5");
  EXPECT_EQ(shard_name(WrittenLayout::kFixedInt32, 3, 2048), "part_3_of_2048.hdf5");
}

TEST(ShardWriter, RefusesWhatTheLayoutCannotHold) {
  const TestFolder folder;
  testing::OwnedSample sample = testing::small_sample();
  sample.ids[1] = 40000;
  EXPECT_THAT(message_of<InputError>([&] { testing::write_one(folder / "a", sample); }),
              AllOf(HasSubstr("row 1 has token id 40000"), HasSubstr("at most 32767")));
  testing::write_one(folder / "a", sample, WrittenLayout::kFixedInt32);
  sample = testing::small_sample();
  sample.ids.resize(25, 5);
  sample.segments.resize(25, 1);
  EXPECT_THAT(message_of<InputError>([&] { testing::write_one(folder / "b", sample, WrittenLayout::kFixed); }),
              AllOf(HasSubstr("token count of 25"), HasSubstr("at most 24")));
  EXPECT_FALSE(fs::exists(folder / "b"));
  EXPECT_THAT(message_of<ConfigError>([] { parse_written_layout("parquet"); }), HasSubstr("layout is parquet"));
}

TEST(ShardWriter, AFolderThatCannotBeMadeIsTheEnvironmentsFault) {
  const TestFolder folder;
  testing::write_text(folder / "file", "in the way");
  EXPECT_THAT(message_of<EnvironmentError>([&] {
                write_shards(folder / "file/below", testing::random_samples(2, 1), 1, testing::test_format(WrittenLayout::kVarlength));
              }),
              HasSubstr("cannot make the folder"));
  EXPECT_THAT(message_of<EnvironmentError>([&] { testing::write_all(folder / "absent/part", testing::random_samples(2, 1)); }),
              AllOf(HasSubstr("cannot write"), HasSubstr("No such file")));
}

TEST(ShardWriter, AFullDiskLeavesNoFile) {
  const TestFolder folder;
  // A limit on file sizes stops a write half-way as a full disk does.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = message_of<EnvironmentError>([&] { testing::write_all(folder / "part", testing::random_samples(500, 1)); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write"), HasSubstr("bytes are needed"), HasSubstr("are free")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace flashbert
