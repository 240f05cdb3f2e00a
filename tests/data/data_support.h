#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/hdf5_file.h"
#include "data/random_stream.h"
#include "data/sample_store.h"
#include "data/shard_writer.h"

namespace flashbert::testing {

/// A folder of the running test's own, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() / (std::string("flashbert_") + test->name() + "_" + std::to_string(::getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What the call complains of; the test fails when it does not throw an E.
template <class E, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A sample that owns its numbers, to be spoilt field by field.
struct OwnedSample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> segments;
  std::vector<std::int32_t> positions, labels;
  std::int32_t next = 0;
  [[nodiscard]] SampleView view() const {
    return {.token_ids = ids, .segment_ids = segments, .masked_positions = positions, .masked_labels = labels, .next_sentence_label = next};
  }
};

/// [CLS] x x [SEP] x x [SEP] with two masks; good for a vocabulary of 64.
inline OwnedSample small_sample() {
  return {.ids = {2, 4, 11, 3, 12, 4, 3}, .segments = {0, 0, 0, 0, 1, 1, 1}, .positions = {1, 5}, .labels = {20, 21}, .next = 1};
}

constexpr std::int64_t kTestVocab = 64;
constexpr std::int64_t kTestSeqLen = 24;
constexpr std::int64_t kTestPredictions = 4;

/// Good samples of 5 to kTestSeqLen tokens with 0 to kTestPredictions masks.
inline SampleStore random_samples(std::int64_t count, std::uint64_t seed) {
  SampleStore store;
  for (std::int64_t i = 0; i < count; ++i) {
    RandomStream random({.seed = seed, .domain = 0, .purpose = 0, .index = static_cast<std::uint64_t>(i)});
    OwnedSample sample;
    const std::int64_t length = 5 + random.below(kTestSeqLen - 4);
    for (std::int64_t t = 0; t < length; ++t) {
      sample.ids.push_back(static_cast<std::int32_t>(1 + random.below(kTestVocab - 1)));
      sample.segments.push_back(t < length / 2 ? 0 : 1);
    }
    const std::int64_t masks = random.below(kTestPredictions + 1);
    for (std::int64_t m = 0; m < masks; ++m) {
      sample.positions.push_back(static_cast<std::int32_t>(1 + m));
      sample.labels.push_back(static_cast<std::int32_t>(1 + random.below(kTestVocab - 1)));
    }
    sample.next = static_cast<std::int32_t>(random.below(2));
    store.append(sample.view());
  }
  return store;
}

inline ShardFormat test_format(WrittenLayout layout) {
  return {.layout = layout, .seq_len = kTestSeqLen, .max_predictions = kTestPredictions};
}

inline void write_all(const std::filesystem::path& path, const SampleStore& samples, WrittenLayout layout = WrittenLayout::kVarlength) {
  write_shard(path, samples, {.begin = 0, .count = samples.size()}, test_format(layout));
}

inline void write_one(const std::filesystem::path& path, const OwnedSample& sample, WrittenLayout layout = WrittenLayout::kVarlength) {
  SampleStore store;
  store.append(small_sample().view());
  store.append(sample.view());
  write_all(path, store, layout);
}

inline void write_text(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

inline void delete_dataset(const std::filesystem::path& path, const std::string& name) {
  prepare_hdf5();
  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  ASSERT_GE(H5Ldelete(file.get(), name.c_str(), H5P_DEFAULT), 0);
}

/// Puts another dataset in the place of one; `type` in memory and in the file.
inline void replace_dataset(const std::filesystem::path& path, const std::string& name, hid_t type, const std::vector<hsize_t>& shape,
                            const void* data) {
  prepare_hdf5();
  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  if (H5Lexists(file.get(), name.c_str(), H5P_DEFAULT) > 0) H5Ldelete(file.get(), name.c_str(), H5P_DEFAULT);
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  const Hdf5Handle dataset(H5Dcreate2(file.get(), name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  ASSERT_GE(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
}

template <class T>
std::vector<T> to_vector(std::span<const T> values) {
  return {values.begin(), values.end()};
}

inline void expect_equal(const SampleView& got, const SampleView& want) {
  EXPECT_EQ(to_vector(got.token_ids), to_vector(want.token_ids));
  EXPECT_EQ(to_vector(got.segment_ids), to_vector(want.segment_ids));
  EXPECT_EQ(to_vector(got.masked_positions), to_vector(want.masked_positions));
  EXPECT_EQ(to_vector(got.masked_labels), to_vector(want.masked_labels));
  EXPECT_EQ(got.next_sentence_label, want.next_sentence_label);
}

}  // namespace flashbert::testing
