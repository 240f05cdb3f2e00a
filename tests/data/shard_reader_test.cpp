#include "data/shard_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>

#include "data/fingerprint.h"
#include "data_support.h"

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::OwnedSample;
using testing::small_sample;
using testing::TestFolder;
using testing::write_text;

constexpr SampleLimits kLimits{.vocab = testing::kTestVocab, .max_positions = testing::kTestSeqLen, .type_vocab = 2};

/// The complaint about the second of two rows.
std::string complaint(const OwnedSample& sample, WrittenLayout layout = WrittenLayout::kVarlength) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_one(file, sample, layout);
  const std::string message = message_of<InputError>([&] { read_shard(inspect_shard(file), kLimits); });
  EXPECT_THAT(message, AllOf(HasSubstr(file.string()), HasSubstr("row 1 ")));
  return message;
}

TEST(ListShards, RefusesWhatIsNotThereOrHoldsNothing) {
  const TestFolder folder;
  EXPECT_THAT(message_of<InputError>([&] { list_shards(folder / "absent"); }), HasSubstr("absent does not exist"));
  EXPECT_THAT(message_of<InputError>([&] { list_shards(folder.path()); }), HasSubstr("holds no shard"));
  write_text(folder / "notes.txt", "no HDF5 here");
  EXPECT_THAT(message_of<InputError>([&] { list_shards(folder.path()); }), HasSubstr("no HDF5 file"));
}

TEST(ListShards, TakesPartsInOrderOfNameAndNoLists) {
  const TestFolder folder;
  // The hidden one is what a killed writer leaves.
  for (const char* const name :
       {"part_00001_of_00002.hdf5", "part_00000_of_00002.hdf5", "eval.hdf5", ".part_00002_of_00002.hdf5.partial"}) {
    testing::write_all(folder / name, testing::random_samples(2, 1));
  }
  write_text(folder / "part_00000.lst", "[]");
  const std::vector<fs::path> want = {folder / "part_00000_of_00002.hdf5", folder / "part_00001_of_00002.hdf5"};
  EXPECT_EQ(list_shards(folder.path()), want);
  for (const fs::path& part : want) fs::remove(part);
  fs::remove(folder / "part_00000.lst");
  EXPECT_EQ(list_shards(folder.path()), std::vector<fs::path>{folder / "eval.hdf5"});
}

TEST(InspectShard, RefusesFilesThatAreNoHdf5) {
  const TestFolder folder;
  write_text(folder / "part_00000", "plain text, longer than a signature");
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(folder / "part_00000"); }), HasSubstr("part_00000 is not an HDF5 file"));
}

TEST(InspectShard, TellsBothSizesOfATruncatedFile) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_all(file, testing::random_samples(200, 1));
  const auto bytes = fs::file_size(file);
  fs::resize_file(file, bytes - 1000);
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }),
              AllOf(HasSubstr(file.string()), HasSubstr(std::to_string(bytes)), HasSubstr(std::to_string(bytes - 1000))));
  fs::resize_file(file, 20);
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }), HasSubstr("cut short"));
}

TEST(InspectShard, NamesTheMissingDatasetAndThosePresent) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_all(file, testing::random_samples(2, 1));
  testing::delete_dataset(file, "next_sentence_labels");
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }),
              AllOf(HasSubstr(file.string()), HasSubstr("no dataset next_sentence_labels"),
                    HasSubstr("input_ids, masked_lm_ids, masked_lm_positions, segment_ids")));
}

TEST(InspectShard, RefusesWrongElementTypesAndShapes) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_all(file, testing::random_samples(2, 1), WrittenLayout::kFixed);
  const std::vector<float> values(2 * testing::kTestPredictions);
  testing::replace_dataset(file, "masked_lm_ids", H5T_IEEE_F32LE, {2, testing::kTestPredictions}, values.data());
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }),
              HasSubstr("dataset masked_lm_ids holds float32; integers are expected"));
  const std::vector<std::int16_t> narrow(2 * 3);
  testing::replace_dataset(file, "masked_lm_ids", H5T_STD_I16LE, {2, 3}, narrow.data());
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }),
              HasSubstr("dataset masked_lm_ids has rows of 3, masked_lm_positions of 4"));
  testing::replace_dataset(file, "masked_lm_ids", H5T_STD_I16LE, {1, testing::kTestPredictions}, narrow.data());
  EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }), HasSubstr("dataset masked_lm_ids has 1 rows, input_ids has 2"));
}

TEST(InspectShard, NextSentenceLabelsMayBeAColumn) {
  for (const WrittenLayout layout : {WrittenLayout::kFixed, WrittenLayout::kVarlength}) {
    const TestFolder folder;
    const fs::path file = folder / "part_00000_of_00001.hdf5";
    testing::write_all(file, testing::random_samples(3, 1), layout);
    const std::vector<std::int8_t> labels = {1, 0, 1, 0, 0, 0};
    testing::replace_dataset(file, "next_sentence_labels", H5T_STD_I8LE, {3, 1}, labels.data());
    const SampleStore samples = read_shard(inspect_shard(file), kLimits);
    for (std::int64_t row = 0; row < 3; ++row) EXPECT_EQ(samples[row].next_sentence_label, labels[static_cast<std::size_t>(row)]);
    testing::replace_dataset(file, "next_sentence_labels", H5T_STD_I8LE, {3, 2}, labels.data());
    EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }), HasSubstr("next_sentence_labels has 2 axes, not 1"));
    testing::replace_dataset(file, "next_sentence_labels", H5T_STD_I8LE, {2, 1}, labels.data());
    EXPECT_THAT(message_of<InputError>([&] { inspect_shard(file); }), HasSubstr("next_sentence_labels has 2 rows, input_ids has 3"));
  }
}

TEST(InspectShard, OpensALockedFileWhateverTheEnvironmentSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which the library was not used yet
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  // The child builds the shard itself: it runs this test from its start, in its own folder.
  EXPECT_EXIT(
      {
        ::setenv("HDF5_USE_FILE_LOCKING", "TRUE", 1);
        testing::write_all(file, testing::random_samples(3, 1));
        const int held = ::open(file.c_str(), O_RDONLY);
        const bool locked = ::flock(held, LOCK_EX) == 0;
        const bool good = locked && read_shard(inspect_shard(file), kLimits).size() == 3;
        fs::remove_all(folder.path());
        std::exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ReadShard, AllLayoutsAndIntegerWidthsGiveTheSameSamples) {
  const TestFolder folder;
  const SampleStore samples = testing::random_samples(32, 5);
  testing::write_all(folder / "varlength", samples, WrittenLayout::kVarlength);
  testing::write_all(folder / "fixed", samples, WrittenLayout::kFixed);
  testing::write_all(folder / "fixed32", samples, WrittenLayout::kFixedInt32);
  testing::write_all(folder / "fixed64", samples, WrittenLayout::kFixed);
  for (const char* const name :
       {"input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids", "next_sentence_labels"}) {
    std::vector<std::int32_t> narrow;
    std::vector<hsize_t> shape;
    {
      const Hdf5File file(folder / "fixed64");
      narrow = file.read(name);
      for (const std::int64_t extent : file.describe(name).shape) shape.push_back(static_cast<hsize_t>(extent));
    }
    const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
    testing::replace_dataset(folder / "fixed64", name, H5T_STD_I64LE, shape, wide.data());
  }
  SampleFingerprint want;
  want.add(samples);
  const std::string digest = want.samples_sha256();
  for (const char* const name : {"varlength", "fixed", "fixed32", "fixed64"}) {
    SampleFingerprint got;
    got.add(read_shard(inspect_shard(folder / name), kLimits));
    EXPECT_EQ(got.samples_sha256(), digest) << name;
  }
}

TEST(ReadShard, RefusesIdsOutsideTheVocabulary) {
  OwnedSample sample = small_sample();
  sample.ids[2] = 64;
  EXPECT_THAT(complaint(sample), HasSubstr("has token id 64 at position 2, the vocabulary has 64"));
  sample.ids[2] = -5;
  EXPECT_THAT(complaint(sample), HasSubstr("has token id -5"));
}

TEST(ReadShard, RefusesEmptyAndTooLongRows) {
  EXPECT_THAT(complaint({}), HasSubstr("has length 0"));
  OwnedSample sample;
  sample.ids.assign(testing::kTestSeqLen + 1, 7);
  sample.segments.assign(sample.ids.size(), 0);
  EXPECT_THAT(complaint(sample), HasSubstr("has 25 tokens, the model has 24 positions"));
}

TEST(ReadShard, RefusesMasksOutsideTheSequenceAtItsStartOrOutOfOrder) {
  OwnedSample sample = small_sample();
  sample.positions = {1, 7};
  EXPECT_THAT(complaint(sample), HasSubstr("masks position 7, outside its 7 tokens"));
  sample.positions = {0, 5};
  EXPECT_THAT(complaint(sample), HasSubstr("masks position 0, which is [CLS]"));
  sample.positions = {5, 1};
  EXPECT_THAT(complaint(sample), HasSubstr("do not ascend: 1 after 5"));
}

TEST(ReadShard, RefusesLabelsWithoutMask) {
  OwnedSample sample = small_sample();
  sample.positions = {1, 0};
  EXPECT_THAT(complaint(sample, WrittenLayout::kFixed), HasSubstr("has label 21 in slot 1, which masks no position"));
}

TEST(ReadShard, RefusesMasksWithoutLabel) {
  OwnedSample sample = small_sample();
  sample.labels = {20, 0};
  EXPECT_THAT(complaint(sample, WrittenLayout::kFixed), HasSubstr("has label 0 at masked position 5"));
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_one(file, small_sample());
  std::int16_t label = 20;
  const hvl_t rows[] = {{1, &label}, {1, &label}};
  const Hdf5Handle type(H5Tvlen_create(H5T_STD_I16LE), H5Tclose);
  testing::replace_dataset(file, "masked_lm_ids", type.get(), {2}, rows);
  EXPECT_THAT(message_of<InputError>([&] { read_shard(inspect_shard(file), kLimits); }),
              HasSubstr("row 0 has 2 masked positions and 1 labels"));
}

TEST(ReadShard, RefusesOtherValuesOutOfRange) {
  OwnedSample sample = small_sample();
  sample.labels[0] = 64;
  EXPECT_THAT(complaint(sample), HasSubstr("has label 64 at masked position 1, the vocabulary has 64"));
  sample = small_sample();
  sample.segments[3] = 2;
  EXPECT_THAT(complaint(sample), HasSubstr("has segment id 2 at position 3, the model has 2 segments"));
  sample = small_sample();
  sample.next = 2;
  EXPECT_THAT(complaint(sample), HasSubstr("has next-sentence label 2, not 0 or 1"));
}

TEST(ReadShard, RefusesAnInputMaskWithHoles) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  testing::write_one(file, small_sample(), WrittenLayout::kFixed);
  std::vector<std::int8_t> mask(2 * testing::kTestSeqLen, 0);
  std::fill_n(mask.begin(), 7, std::int8_t{1});
  mask[testing::kTestSeqLen] = 1;
  mask[testing::kTestSeqLen + 2] = 1;
  testing::replace_dataset(file, "input_mask", H5T_STD_I8LE, {2, testing::kTestSeqLen}, mask.data());
  EXPECT_THAT(message_of<InputError>([&] { read_shard(inspect_shard(file), kLimits); }),
              HasSubstr("row 1 has an input_mask that is not ones followed by zeros: 1 at position 2"));
}

TEST(ReadShard, RefusesAnInputMaskOfOtherNumbersThanOneAndZero) {
  const TestFolder folder;
  const fs::path file = folder / "part_00000_of_00001.hdf5";
  for (const std::int8_t value : {std::int8_t{2}, std::int8_t{-1}}) {
    testing::write_one(file, small_sample(), WrittenLayout::kFixed);
    std::vector<std::int8_t> mask(2 * testing::kTestSeqLen, 0);
    std::fill_n(mask.begin(), 7, std::int8_t{1});
    std::fill_n(mask.begin() + testing::kTestSeqLen, 7, std::int8_t{1});
    mask[3] = value;
    testing::replace_dataset(file, "input_mask", H5T_STD_I8LE, {2, testing::kTestSeqLen}, mask.data());
    EXPECT_THAT(message_of<InputError>([&] { read_shard(inspect_shard(file), kLimits); }),
                HasSubstr(fmt::format("row 0 has an input_mask that is not ones followed by zeros: {} at position 3", value)));
    fs::remove(file);
  }
}

}  // namespace
}  // namespace flashbert
