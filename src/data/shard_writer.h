#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample_store.h"

namespace flashbert {

/// Layouts that can be written, with the datasets, types, order and storage (contiguous) of the reference's files.
enum class WrittenLayout {
  kFixed,       ///< "fixed": 16-bit ids, positions and labels, the rest 8-bit
  kFixedInt32,  ///< "fixed-int32": 32-bit ids, positions and labels
  kVarlength,   ///< "varlength": rows without padding, 16-bit ids
};
/// Throws ConfigError naming the known layouts.
WrittenLayout parse_written_layout(std::string_view name);

struct ShardFormat {
  WrittenLayout layout = WrittenLayout::kVarlength;
  std::int64_t seq_len = 0;          ///< row width of fixed layouts; longer samples are refused
  std::int64_t max_predictions = 0;  ///< slots of fixed layouts; samples with more masked positions are refused
};

/// "part_00003_of_00008.hdf5", for fixed-int32 "part_3_of_8.hdf5".
std::string shard_name(WrittenLayout layout, std::int64_t index, std::int64_t count);

/// Sizes of `shards` shards of `samples` samples together, by the reference's rule: with n = ceil(samples / shards), the first
/// shards * n - samples shards have n - 1, the others n. Throws ConfigError for less than one shard.
std::vector<std::int64_t> shard_sizes(std::int64_t samples, std::int64_t shards);

/// Rows [begin, begin + count).
struct RowRange {
  std::int64_t begin = 0, count = 0;
};

/// Writes these rows of the store as one file, under a temporary name first, so that a file under the final name is always whole. Throws
/// InputError (a sample that the format cannot hold: row, value and limit), EnvironmentError (cannot be written: path, bytes needed and
/// the system's reason).
void write_shard(const std::filesystem::path& path, const SampleStore& samples, RowRange rows, const ShardFormat& format);

/// Writes all samples, in order, as `shards` files into `folder`, which is made with its parents. Returns the paths.
std::vector<std::filesystem::path> write_shards(const std::filesystem::path& folder, const SampleStore& samples, std::int64_t shards,
                                                const ShardFormat& format);

}  // namespace flashbert
