#pragma once

#include <hdf5.h>

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/shard_description.h"

namespace flashbert {

/// An HDF5 identifier that closes itself with the function of its kind.
class Hdf5Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Hdf5Handle() { reset(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    reset();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  [[nodiscard]] hid_t get() const { return id_; }
  [[nodiscard]] bool valid() const { return id_ >= 0; }

 private:
  void reset() {
    if (id_ >= 0) close_(id_);
    id_ = -1;
  }
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Turns off HDF5's file locking, whatever the environment says, and its printing of errors in the calling thread. Every function here
/// calls it; call it before using the library directly.
void prepare_hdf5();

/// Held by whoever calls HDF5: most builds of the library may be called from one thread only. Taken again by the thread that holds it.
[[nodiscard]] std::unique_lock<std::recursive_mutex> hdf5_lock();

/// The library's error stack as one line (innermost cause), and the stack cleared. Call right after a failed HDF5 call.
std::string hdf5_error();

/// A file opened for reading, with HDF5's file locking off whatever the environment says (it fails on many network file systems and
/// nobody writes shards while they are read) and with HDF5's own printing of errors off. Holds hdf5_lock() while it lives.
class Hdf5File {
 public:
  /// Throws InputError: no such file, not an HDF5 file, cut short.
  explicit Hdf5File(const std::filesystem::path& path);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::vector<std::string> dataset_names() const;  ///< of the root group, by name
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] DatasetDescription describe(const std::string& name) const;
  /// Whole dataset of integers of any width, as int32, row-major (values beyond int32 are clamped by the library, and then refused as
  /// out of range by whoever checks them). InputError when it holds anything else.
  [[nodiscard]] std::vector<std::int32_t> read(const std::string& name) const;
  /// Whole 1-D dataset of variable-length integer rows: values of all rows back to back and their offsets (rows + 1).
  struct Ragged {
    std::vector<std::int32_t> values;
    std::vector<std::int64_t> offsets;
    [[nodiscard]] std::span<const std::int32_t> row(std::size_t index) const {
      return {values.data() + offsets[index], static_cast<std::size_t>(offsets[index + 1] - offsets[index])};
    }
  };
  [[nodiscard]] Ragged read_ragged(const std::string& name) const;

 private:
  [[nodiscard]] Hdf5Handle open_dataset(const std::string& name) const;
  std::unique_lock<std::recursive_mutex> lock_ = hdf5_lock();
  std::filesystem::path path_;
  Hdf5Handle file_;
};

}  // namespace flashbert
