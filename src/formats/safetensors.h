#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace flashbert {

/// A safetensors file mapped read-only: u64 header length, JSON header, raw little-endian data. Every claim of the header is checked
/// against the file before anything is believed (length, JSON, dtype names, size = product of shape, ranges inside the file, no
/// overlap). Throws InputError naming the file and the tensor. Element types read: F32, F64, BF16, I32, I64, U8 (others, F16
/// included, are listed but give an InputError when asked for). Tensors have up to 3 axes.
/// Source of the format: huggingface/safetensors, README.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::vector<std::string> names() const;  ///< sorted
  [[nodiscard]] bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  /// The view lives as long as this object. Its data may lie on any byte boundary.
  [[nodiscard]] ConstTensor tensor(std::string_view name) const;
  /// The file's own word for the element type ("F32") and the shape, for listings.
  [[nodiscard]] std::string_view dtype_name(std::string_view name) const;
  [[nodiscard]] const std::vector<std::int64_t>& shape(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  ///< bytes from the start of the data
  };
  void parse_header(std::string_view header);
  [[nodiscard]] const Entry& entry(std::string_view name) const;

  std::filesystem::path path_;
  const char* base_ = nullptr;
  std::int64_t file_bytes_ = 0;
  const char* data_ = nullptr;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

/// A tensor in host memory and the name it gets in the file.
struct NamedTensor {
  std::string name;
  ConstTensor tensor;
};

/// Writes the file under a temporary name in the same folder, flushes it to disk and renames it, so that a file under the final name is
/// always whole. Contiguous tensors of f32, f64, bf16, i32, i64 or u8. Throws EnvironmentError with the path and
/// the system's reason (unwritable, disk full), DtypeError for other element types.
void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace flashbert
