#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/sample_store.h"

namespace flashbert {

/// File layouts, told apart by content, never by name.
enum class ShardLayout {
  kFixed,      ///< rows padded to one length, with input_mask ("fixed": 16-bit ids, "fixed-int32": 32-bit; any integer width is read)
  kVarlength,  ///< variable-length rows without padding, no input_mask
};
std::string_view name_of(ShardLayout layout);

/// What the file says of itself, from headers alone: no sample is read (so it may be asked before the clock starts).
struct ShardInfo {
  std::filesystem::path path;
  ShardLayout layout = ShardLayout::kFixed;
  bool wide_ids = false;             ///< input_ids of 32 bits: called fixed-int32
  std::int64_t samples = 0;          ///< may be 0: an empty shard, skipped with a notice
  std::int64_t seq_len = 0;          ///< row width of fixed files; 0 = not told (varlength)
  std::int64_t max_predictions = 0;  ///< likewise
};

/// What samples must satisfy to be trained on; 0 = not checked.
struct SampleLimits {
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  std::int64_t type_vocab = 2;
};

/// Shards of a training or evaluation set in a fixed order: a file, or all regular files of a folder whose name starts with "part",
/// whatever is in them, so that a damaged shard is refused later and not passed over (if there is none: all files that start with the
/// HDF5 signature), sorted by name; .lst and other files are ignored.
/// Throws InputError naming the path: missing, empty folder, no HDF5 file in it.
std::vector<std::filesystem::path> list_shards(const std::filesystem::path& path);

/// Opens read-only, with HDF5's file locking off whatever the environment says. Throws InputError naming file and dataset:
/// not HDF5, truncated (actual and recorded size), missing dataset (and those present), wrong type or shape.
ShardInfo inspect_shard(const std::filesystem::path& path);

/// Reads all samples of a shard, checked against the limits: each violation is an InputError naming file, row, value and limit
/// (token id, segment id, length 0 or longer than max_positions, masked position outside the sequence or at 0, positions not
/// ascending, label without mask, label out of range, next-sentence label other than 0 or 1, input_mask not a prefix of ones).
SampleStore read_shard(const ShardInfo& info, const SampleLimits& limits);

}  // namespace flashbert
