#include "formats/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/whole_file.h"

namespace flashbert {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
constexpr std::int64_t kLengthBytes = 8;

std::optional<Dtype> readable_dtype(std::string_view name) {
  if (name == "F32") return Dtype::kF32;
  if (name == "F64") return Dtype::kF64;
  if (name == "BF16") return Dtype::kBf16;
  if (name == "I32") return Dtype::kI32;
  if (name == "I64") return Dtype::kI64;
  if (name == "U8") return Dtype::kU8;
  return std::nullopt;
}

std::int64_t element_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::int64_t> kSizes[] = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
      {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};
  for (const auto& [name, bytes] : kSizes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

std::string_view file_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kF64:
      return "F64";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kI32:
      return "I32";
    case Dtype::kI64:
      return "I64";
    case Dtype::kU8:
      return "U8";
    default:
      throw DtypeError(fmt::format("safetensors files are not written with elements of type {}", name_of(dtype)));
  }
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

void append(const Descriptor& file, const void* data, std::int64_t bytes, const std::filesystem::path& path) {
  const int failure = write_bytes(file.get(), {static_cast<const char*>(data), static_cast<std::size_t>(bytes)});
  check<EnvironmentError>(failure == 0, "cannot write {}: {}", path.string(), std::strerror(failure));
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  check<InputError>(file.get() >= 0, "cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  check<InputError>(::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode), "{} is not a regular file", path.string());
  file_bytes_ = status.st_size;
  check<InputError>(file_bytes_ >= kLengthBytes + 2, "{} is no safetensors file: it has {} bytes", path.string(), file_bytes_);
  void* mapping = ::mmap(nullptr, static_cast<std::size_t>(file_bytes_), PROT_READ, MAP_PRIVATE, file.get(), 0);
  check<EnvironmentError>(mapping != MAP_FAILED, "cannot map {}: {}", path.string(), std::strerror(errno));
  base_ = static_cast<const char*>(mapping);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, base_, sizeof header_bytes);
  try {
    check<InputError>(header_bytes <= kMaxHeaderBytes && static_cast<std::int64_t>(header_bytes) <= file_bytes_ - kLengthBytes,
                      "{} is no safetensors file or is cut short: it announces a header of {} bytes, the file has {}", path.string(),
                      header_bytes, file_bytes_);
    data_ = base_ + kLengthBytes + header_bytes;
    parse_header({base_ + kLengthBytes, header_bytes});
  } catch (...) {
    ::munmap(mapping, static_cast<std::size_t>(file_bytes_));
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<char*>(base_), static_cast<std::size_t>(file_bytes_)); }

void SafetensorsFile::parse_header(std::string_view header) {
  const auto root = nlohmann::json::parse(header, nullptr, false);
  check<InputError>(root.is_object(), "{} is no safetensors file: its header is not a JSON object", path_.string());
  const std::int64_t data_bytes = file_bytes_ - (data_ - base_);
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.items()) metadata_[key] = text.is_string() ? text.get<std::string>() : text.dump();
      continue;
    }
    Entry entry;
    try {
      entry.dtype = value.at("dtype").get<std::string>();
      entry.shape = value.at("shape").get<std::vector<std::int64_t>>();
      const auto offsets = value.at("data_offsets").get<std::vector<std::int64_t>>();
      check<InputError>(offsets.size() == 2, "{}: tensor {} has {} data_offsets, not 2", path_.string(), name, offsets.size());
      entry.begin = offsets[0];
      entry.end = offsets[1];
    } catch (const nlohmann::json::exception& error) {
      throw InputError(fmt::format("{}: entry {} is malformed: {}", path_.string(), name, error.what()));
    }
    const std::int64_t bytes_each = element_bytes(entry.dtype);
    check<InputError>(bytes_each > 0, "{}: tensor {} has the unknown dtype {}", path_.string(), name, entry.dtype);
    std::int64_t bytes = bytes_each;
    for (const std::int64_t extent : entry.shape) {
      check<InputError>(extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes), "{}: tensor {} has an impossible shape",
                        path_.string(), name);
    }
    check<InputError>(entry.begin >= 0 && entry.end >= entry.begin && entry.end <= data_bytes,
                      "{}: tensor {} lies at bytes {} to {} of the data, which has {}; the file is cut short or damaged", path_.string(),
                      name, entry.begin, entry.end, data_bytes);
    check<InputError>(entry.end - entry.begin == bytes, "{}: tensor {} takes {} bytes, its shape and dtype {} need {}", path_.string(),
                      name, entry.end - entry.begin, entry.dtype, bytes);
    ranges.emplace_back(entry.begin, entry.end);
    entries_.emplace(name, std::move(entry));
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    check<InputError>(ranges[i].first >= ranges[i - 1].second, "{}: two tensors overlap at byte {} of the data", path_.string(),
                      ranges[i].first);
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafetensorsFile::Entry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  check<InputError>(found != entries_.end(), "{} has no tensor {}", path_.string(), name);
  return found->second;
}

ConstTensor SafetensorsFile::tensor(std::string_view name) const {
  const Entry& found = entry(name);
  const auto dtype = readable_dtype(found.dtype);
  check<InputError>(dtype.has_value(), "{}: tensor {} has dtype {}; F32, F64, BF16, I32, I64 and U8 are read", path_.string(), name,
                    found.dtype);
  const auto& s = found.shape;
  check<InputError>(s.size() <= Shape::kMaxRank, "{}: tensor {} has {} axes; at most {} are read", path_.string(), name, s.size(),
                    Shape::kMaxRank);
  const Shape shape = s.empty() ? Shape{} : s.size() == 1 ? Shape{s[0]} : s.size() == 2 ? Shape{s[0], s[1]} : Shape{s[0], s[1], s[2]};
  return {data_ + found.begin, *dtype, shape};
}

std::string_view SafetensorsFile::dtype_name(std::string_view name) const { return entry(name).dtype; }

const std::vector<std::int64_t>& SafetensorsFile::shape(std::string_view name) const { return entry(name).shape; }

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check<ShapeError>(tensor.contiguous(), "tensor {} is not contiguous", name);
    auto extents = nlohmann::json::array();
    for (int axis = 0; axis < tensor.rank(); ++axis) extents.push_back(tensor.extent(axis));
    header[name] = {{"dtype", file_dtype(tensor.dtype())}, {"shape", extents}, {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // readers that map the file get aligned data

  const std::filesystem::path temporary = path.string() + ".tmp";
  try {
    const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    check<EnvironmentError>(file.get() >= 0, "cannot create {}: {}", temporary.string(), std::strerror(errno));
    const std::uint64_t header_bytes = text.size();
    append(file, &header_bytes, sizeof header_bytes, temporary);
    append(file, text.data(), static_cast<std::int64_t>(text.size()), temporary);
    for (const auto& [name, tensor] : tensors) append(file, tensor.raw(), tensor.bytes(), temporary);
    check<EnvironmentError>(::fsync(file.get()) == 0, "cannot flush {} to disk: {}", temporary.string(), std::strerror(errno));
    check<EnvironmentError>(::rename(temporary.c_str(), path.c_str()) == 0, "cannot rename {} to {}: {}", temporary.string(), path.string(),
                            std::strerror(errno));
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace flashbert
