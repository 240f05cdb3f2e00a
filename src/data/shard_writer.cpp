#include "data/shard_writer.h"

#include <limits>
#include <span>

#include "core/error.h"
#include "core/whole_file.h"
#include "data/dataset_names.h"
#include "data/hdf5_file.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

/// A file built in memory. Written out by ourselves: HDF5 cannot close a file on a full disk, and tells no reason.
class MemoryFile {
 public:
  explicit MemoryFile(const fs::path& path) : path_(path) {
    prepare_hdf5();
    constexpr std::size_t kGrowBytes = std::size_t{4} << 20;
    constexpr hbool_t kKeepInMemory = 0;
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    demand(H5Pset_fapl_core(access.get(), kGrowBytes, kKeepInMemory) >= 0, "file in memory");
    file_ = Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
    demand(file_.valid(), "file in memory");
  }

  /// One dataset: elements of `memory_type` stored as `file_type`; data may be null where the shape is empty.
  void write(const char* name, hid_t file_type, hid_t memory_type, std::span<const hsize_t> shape, const void* data) {
    const Hdf5Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
    const Hdf5Handle dataset(H5Dcreate2(file_.get(), name, file_type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    demand(space.valid() && dataset.valid(), name);
    if (shape[0] == 0) return;
    demand(H5Dwrite(dataset.get(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, name);
  }

  std::vector<char> image() {
    demand(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) >= 0, "flush");
    const ssize_t bytes = H5Fget_file_image(file_.get(), nullptr, 0);
    demand(bytes > 0, "image");
    std::vector<char> content(static_cast<std::size_t>(bytes));
    demand(H5Fget_file_image(file_.get(), content.data(), content.size()) == bytes, "image");
    return content;
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_ = hdf5_lock();
  void demand(bool good, const char* what) const {
    if (!good) throw EnvironmentError(fmt::format("cannot build {} in memory ({}): {}", path_.string(), what, hdf5_error()));
  }
  fs::path path_;
  Hdf5Handle file_;
};

/// The part of a store that goes into one file, and the checks of what its format can hold.
class ShardContent {
 public:
  ShardContent(const fs::path& path, const SampleStore& samples, RowRange rows, const ShardFormat& format)
      : path_(path), samples_(samples), rows_(rows), format_(format) {
    for (std::int64_t row = 0; row < rows.count; ++row) check_fits(row);
  }
  [[nodiscard]] std::int64_t rows() const { return rows_.count; }
  [[nodiscard]] SampleView operator[](std::int64_t row) const { return samples_[rows_.begin + row]; }
  [[nodiscard]] const ShardFormat& format() const { return format_; }
  [[nodiscard]] std::vector<std::int8_t> next_sentence_labels() const {
    std::vector<std::int8_t> labels;
    for (std::int64_t row = 0; row < rows(); ++row) labels.push_back(static_cast<std::int8_t>((*this)[row].next_sentence_label));
    return labels;
  }

 private:
  void check_fits(std::int64_t row) const {
    const SampleView sample = (*this)[row];
    const auto refuse_above = [&](std::int64_t value, std::int64_t limit, const char* what) {
      check<InputError>(value <= limit, "cannot write {}: row {} has {} {}, the layout holds at most {}", path_.string(), row, what, value,
                        limit);
    };
    if (format_.layout != WrittenLayout::kVarlength) {
      refuse_above(static_cast<std::int64_t>(sample.token_ids.size()), format_.seq_len, "a token count of");
      refuse_above(static_cast<std::int64_t>(sample.masked_positions.size()), format_.max_predictions, "a masked count of");
    }
    if (format_.layout == WrittenLayout::kFixedInt32) return;
    constexpr std::int64_t kMost16Bit = std::numeric_limits<std::int16_t>::max();
    refuse_above(static_cast<std::int64_t>(sample.token_ids.size()), kMost16Bit, "a token count of");
    for (const std::int32_t id : sample.token_ids) refuse_above(id, kMost16Bit, "token id");
    for (const std::int32_t id : sample.masked_labels) refuse_above(id, kMost16Bit, "label");
  }
  const fs::path& path_;
  const SampleStore& samples_;
  RowRange rows_;
  const ShardFormat& format_;
};

/// Ragged rows as the file stores them: values of T back to back and one descriptor a row.
template <class T, class Rows>
void write_ragged(MemoryFile& file, const char* name, const ShardContent& content, hid_t element, Rows rows_of) {
  std::vector<T> values;
  for (std::int64_t row = 0; row < content.rows(); ++row) {
    for (const auto value : rows_of(content[row])) values.push_back(static_cast<T>(value));
  }
  std::vector<hvl_t> rows;
  rows.reserve(static_cast<std::size_t>(content.rows()));
  T* next = values.data();
  for (std::int64_t row = 0; row < content.rows(); ++row) {
    const std::size_t count = rows_of(content[row]).size();
    rows.push_back({count, next});
    next += count;
  }
  const Hdf5Handle type(H5Tvlen_create(element), H5Tclose);
  const hsize_t shape[] = {static_cast<hsize_t>(content.rows())};
  file.write(name, type.get(), type.get(), shape, rows.data());
}

/// Rows padded with 0 to `width`.
template <class T, class Rows>
void write_padded(MemoryFile& file, const char* name, const ShardContent& content, hid_t element, std::int64_t width, Rows rows_of) {
  std::vector<T> values(static_cast<std::size_t>(content.rows() * width));
  for (std::int64_t row = 0; row < content.rows(); ++row) {
    T* out = values.data() + row * width;
    for (const auto value : rows_of(content[row])) *out++ = static_cast<T>(value);
  }
  const hsize_t shape[] = {static_cast<hsize_t>(content.rows()), static_cast<hsize_t>(width)};
  file.write(name, element, element, shape, values.data());
}

void write_next_sentence(MemoryFile& file, const ShardContent& content) {
  const std::vector<std::int8_t> labels = content.next_sentence_labels();
  const hsize_t shape[] = {labels.size()};
  file.write(dataset_names::kNextSentence, H5T_STD_I8LE, H5T_NATIVE_INT8, shape, labels.data());
}

constexpr auto kIds = [](const SampleView& sample) { return sample.token_ids; };
constexpr auto kMask = [](const SampleView& sample) { return std::vector<std::int8_t>(sample.token_ids.size(), 1); };
constexpr auto kSegments = [](const SampleView& sample) { return sample.segment_ids; };
constexpr auto kPositions = [](const SampleView& sample) { return sample.masked_positions; };
constexpr auto kLabels = [](const SampleView& sample) { return sample.masked_labels; };

template <class T>
void write_fixed(MemoryFile& file, const ShardContent& content, hid_t wide) {
  const std::int64_t seq_len = content.format().seq_len;
  const std::int64_t slots = content.format().max_predictions;
  write_padded<T>(file, dataset_names::kInputIds, content, wide, seq_len, kIds);
  write_padded<std::int8_t>(file, dataset_names::kInputMask, content, H5T_STD_I8LE, seq_len, kMask);
  write_padded<std::int8_t>(file, dataset_names::kSegmentIds, content, H5T_STD_I8LE, seq_len, kSegments);
  write_padded<T>(file, dataset_names::kPositions, content, wide, slots, kPositions);
  write_padded<T>(file, dataset_names::kLabels, content, wide, slots, kLabels);
  write_next_sentence(file, content);
}

void write_varlength(MemoryFile& file, const ShardContent& content) {
  write_ragged<std::int16_t>(file, dataset_names::kInputIds, content, H5T_STD_I16LE, kIds);
  write_ragged<std::int8_t>(file, dataset_names::kSegmentIds, content, H5T_STD_I8LE, kSegments);
  write_ragged<std::int16_t>(file, dataset_names::kPositions, content, H5T_STD_I16LE, kPositions);
  write_ragged<std::int16_t>(file, dataset_names::kLabels, content, H5T_STD_I16LE, kLabels);
  write_next_sentence(file, content);
}

}  // namespace

WrittenLayout parse_written_layout(std::string_view name) {
  if (name == "fixed") return WrittenLayout::kFixed;
  if (name == "fixed-int32") return WrittenLayout::kFixedInt32;
  if (name == "varlength") return WrittenLayout::kVarlength;
  throw ConfigError(fmt::format("layout is {}; fixed, fixed-int32 and varlength can be written", name));
}

std::string shard_name(WrittenLayout layout, std::int64_t index, std::int64_t count) {
  if (layout == WrittenLayout::kFixedInt32) return fmt::format("part_{}_of_{}.hdf5", index, count);
  return fmt::format("part_{:05}_of_{:05}.hdf5", index, count);
}

std::vector<std::int64_t> shard_sizes(std::int64_t samples, std::int64_t shards) {
  check<ConfigError>(shards > 0, "shards is {}; at least 1 is needed", shards);
  const std::int64_t nominal = (samples + shards - 1) / shards;
  const std::int64_t smaller = shards * nominal - samples;
  std::vector<std::int64_t> sizes;
  for (std::int64_t shard = 0; shard < shards; ++shard) sizes.push_back(shard < smaller ? nominal - 1 : nominal);
  return sizes;
}

void write_shard(const fs::path& path, const SampleStore& samples, RowRange rows, const ShardFormat& format) {
  const ShardContent content(path, samples, rows, format);
  MemoryFile file(path);
  switch (format.layout) {
    case WrittenLayout::kFixed:
      write_fixed<std::int16_t>(file, content, H5T_STD_I16LE);
      break;
    case WrittenLayout::kFixedInt32:
      write_fixed<std::int32_t>(file, content, H5T_STD_I32LE);
      break;
    case WrittenLayout::kVarlength:
      write_varlength(file, content);
      break;
  }
  const auto image = file.image();
  write_whole_file(path, {image.data(), image.size()});
}

std::vector<fs::path> write_shards(const fs::path& folder, const SampleStore& samples, std::int64_t shards, const ShardFormat& format) {
  const std::vector<std::int64_t> sizes = shard_sizes(samples.size(), shards);
  make_folder(folder);
  std::vector<fs::path> paths;
  std::int64_t begin = 0;
  for (const std::int64_t count : sizes) {
    const auto index = static_cast<std::int64_t>(paths.size());
    paths.push_back(folder / shard_name(format.layout, index, shards));
    write_shard(paths.back(), samples, {.begin = begin, .count = count}, format);
    begin += count;
  }
  return paths;
}

}  // namespace flashbert
