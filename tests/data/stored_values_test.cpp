#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/shard_writer.h"
#include "data_support.h"

// What lies in written shards, read with HDF5 alone: types, extents, rows and padding as docs/data-format.md tells them.

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using testing::TestFolder;
using Numbers = std::vector<std::int64_t>;

struct Closer {
  herr_t (*close)(hid_t) = nullptr;
  hid_t id = H5I_INVALID_HID;
  Closer(hid_t opened, herr_t (*with)(hid_t)) : close(with), id(opened) { EXPECT_GE(opened, 0); }
  ~Closer() { close(id); }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
};

struct Stored {
  std::vector<hsize_t> shape;
  std::size_t element_bytes = 0;
  bool signed_little_endian = false;
  bool variable_length = false;
  std::vector<Numbers> rows;  ///< a row for each first index; one number each where there is one axis
};

Stored stored(const fs::path& path, const std::string& name) {
  Stored found;
  const Closer file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  const Closer dataset(H5Dopen2(file.id, name.c_str(), H5P_DEFAULT), H5Dclose);
  const Closer space(H5Dget_space(dataset.id), H5Sclose);
  const Closer type(H5Dget_type(dataset.id), H5Tclose);
  found.shape.resize(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space.id)));
  H5Sget_simple_extent_dims(space.id, found.shape.data(), nullptr);
  found.variable_length = H5Tget_class(type.id) == H5T_VLEN;
  const Closer element(found.variable_length ? H5Tget_super(type.id) : H5Tcopy(type.id), H5Tclose);
  found.element_bytes = H5Tget_size(element.id);
  found.signed_little_endian = H5Tget_class(element.id) == H5T_INTEGER && H5Tget_sign(element.id) == H5T_SGN_2 &&
                               (found.element_bytes == 1 || H5Tget_order(element.id) == H5T_ORDER_LE);
  const auto count = static_cast<std::size_t>(found.shape[0]);
  found.rows.resize(count);
  if (found.variable_length) {
    const Closer memory(H5Tvlen_create(H5T_NATIVE_INT64), H5Tclose);
    std::vector<hvl_t> values(count);
    EXPECT_GE(H5Dread(dataset.id, memory.id, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    for (std::size_t row = 0; row < count; ++row) {
      const auto* const first = static_cast<const std::int64_t*>(values[row].p);
      found.rows[row].assign(first, first + values[row].len);
    }
    H5Dvlen_reclaim(memory.id, space.id, H5P_DEFAULT, values.data());
    return found;
  }
  const std::size_t width = found.shape.size() > 1 ? static_cast<std::size_t>(found.shape[1]) : 1;
  Numbers values(count * width);
  EXPECT_GE(H5Dread(dataset.id, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  for (std::size_t row = 0; row < count; ++row) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row * width);
    found.rows[row].assign(first, first + static_cast<std::ptrdiff_t>(width));
  }
  return found;
}

/// Three samples whose fields differ from each other; `highest` is the largest id and label.
SampleStore three_samples(std::int32_t highest) {
  SampleStore samples;
  const testing::OwnedSample first{
      .ids = {2, highest, 11, 3, 12, 4, 3}, .segments = {0, 0, 0, 0, 1, 1, 1}, .positions = {1, 5}, .labels = {20, highest - 1}, .next = 1};
  const testing::OwnedSample second{.ids = {2, 9, 3, 8, 3}, .segments = {0, 0, 0, 1, 1}, .positions = {}, .labels = {}, .next = 0};
  const testing::OwnedSample third{
      .ids = {2, 7, 3, 6, 5, 3}, .segments = {0, 0, 0, 1, 1, 1}, .positions = {1, 3, 4}, .labels = {31, 32, 33}, .next = 1};
  for (const auto* sample : {&first, &second, &third}) samples.append(sample->view());
  return samples;
}

void expect_stored(const fs::path& path, const std::string& name, std::size_t bytes, bool variable, const std::vector<Numbers>& rows) {
  const Stored found = stored(path, name);
  EXPECT_EQ(found.element_bytes, bytes) << name;
  EXPECT_TRUE(found.signed_little_endian) << name;
  EXPECT_EQ(found.variable_length, variable) << name;
  EXPECT_EQ(found.rows, rows) << name;
}

TEST(StoredValues, VarlengthRowsHoldTheirTokensAndNothingElse) {
  const TestFolder folder;
  const fs::path path = folder / "part";
  write_shard(path, three_samples(32767), {.begin = 0, .count = 3}, {.layout = WrittenLayout::kVarlength});
  expect_stored(path, "input_ids", 2, true, {{2, 32767, 11, 3, 12, 4, 3}, {2, 9, 3, 8, 3}, {2, 7, 3, 6, 5, 3}});
  expect_stored(path, "segment_ids", 1, true, {{0, 0, 0, 0, 1, 1, 1}, {0, 0, 0, 1, 1}, {0, 0, 0, 1, 1, 1}});
  expect_stored(path, "masked_lm_positions", 2, true, {{1, 5}, {}, {1, 3, 4}});
  expect_stored(path, "masked_lm_ids", 2, true, {{20, 32766}, {}, {31, 32, 33}});
  expect_stored(path, "next_sentence_labels", 1, false, {{1}, {0}, {1}});
}

TEST(StoredValues, FixedRowsArePaddedWithZerosToTheFormatsWidths) {
  const TestFolder folder;
  struct Case {
    WrittenLayout layout;
    std::size_t wide_bytes;
    std::int32_t highest;  // of the element type, or well above 16 bits
  };
  for (const Case& c : {Case{WrittenLayout::kFixed, 2, 32767}, Case{WrittenLayout::kFixedInt32, 4, 70000}}) {
    const fs::path path = folder / "part";
    write_shard(path, three_samples(c.highest), {.begin = 0, .count = 3}, {.layout = c.layout, .seq_len = 9, .max_predictions = 4});
    expect_stored(path, "input_ids", c.wide_bytes, false,
                  {{2, c.highest, 11, 3, 12, 4, 3, 0, 0}, {2, 9, 3, 8, 3, 0, 0, 0, 0}, {2, 7, 3, 6, 5, 3, 0, 0, 0}});
    expect_stored(path, "input_mask", 1, false, {{1, 1, 1, 1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 1, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 0, 0, 0}});
    expect_stored(path, "segment_ids", 1, false, {{0, 0, 0, 0, 1, 1, 1, 0, 0}, {0, 0, 0, 1, 1, 0, 0, 0, 0}, {0, 0, 0, 1, 1, 1, 0, 0, 0}});
    expect_stored(path, "masked_lm_positions", c.wide_bytes, false, {{1, 5, 0, 0}, {0, 0, 0, 0}, {1, 3, 4, 0}});
    expect_stored(path, "masked_lm_ids", c.wide_bytes, false, {{20, c.highest - 1, 0, 0}, {0, 0, 0, 0}, {31, 32, 33, 0}});
    expect_stored(path, "next_sentence_labels", 1, false, {{1}, {0}, {1}});
  }
}

TEST(StoredValues, AShardHoldsTheRowsOfItsRange) {
  const TestFolder folder;
  const fs::path path = folder / "part";
  write_shard(path, three_samples(100), {.begin = 1, .count = 2}, {.layout = WrittenLayout::kVarlength});
  expect_stored(path, "input_ids", 2, true, {{2, 9, 3, 8, 3}, {2, 7, 3, 6, 5, 3}});
  expect_stored(path, "next_sentence_labels", 1, false, {{0}, {1}});
}

}  // namespace
}  // namespace flashbert
