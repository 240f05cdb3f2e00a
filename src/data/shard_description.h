#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace flashbert {

/// One dataset as the file describes it.
struct DatasetDescription {
  std::string name;
  std::string type;  ///< "int16", "uint8", "vlen int16", "float32", ...
  std::vector<std::int64_t> shape;
  std::string storage;  ///< "contiguous", "chunked", "chunked, deflate 4", ...
};

/// The datasets of a file's root group, by name, from headers alone; of any layout, known or not. Throws InputError as
/// inspect_shard does for a file that cannot be opened.
std::vector<DatasetDescription> describe_datasets(const std::filesystem::path& path);

/// Of the HDF5 library that is linked: "1.10.8".
std::string hdf5_version();

}  // namespace flashbert
