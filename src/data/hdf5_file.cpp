#include "data/hdf5_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "core/error.h"
#include "data/vlen_arena.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* error, void* out) {
  auto* const text = static_cast<std::string*>(out);
  if (text->empty() && error->desc != nullptr) *text = error->desc;
  return 0;
}

constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};

/// The file size that the superblock records (its end-of-file address), or -1 where it cannot be told.
std::int64_t recorded_bytes(std::ifstream& file) {
  std::array<unsigned char, 52> head{};
  file.seekg(0);
  file.read(reinterpret_cast<char*>(head.data()), static_cast<std::streamsize>(head.size()));
  const unsigned version = head[8];
  const unsigned offset_bytes = version < 2 ? head[13] : head[9];
  const std::size_t start = version == 0 ? 40 : version == 1 ? 44 : 28;
  if (version > 3 || offset_bytes != 8 || file.gcount() < static_cast<std::streamsize>(start + 8)) return -1;
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | head[start + i];
  return static_cast<std::int64_t>(value);
}

std::string integer_name(hid_t type) { return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", 8 * H5Tget_size(type)); }

std::string type_name(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_name(type);
    case H5T_FLOAT:
      return fmt::format("float{}", 8 * H5Tget_size(type));
    case H5T_STRING:
      return "string";
    case H5T_VLEN: {
      const Hdf5Handle base(H5Tget_super(type), H5Tclose);
      return "vlen " + type_name(base.get());
    }
    default:
      return "other";
  }
}

std::string storage_name(hid_t properties) {
  switch (H5Pget_layout(properties)) {
    case H5D_CONTIGUOUS:
      return "contiguous";
    case H5D_COMPACT:
      return "compact";
    case H5D_CHUNKED:
      break;
    default:
      return "other";
  }
  std::string text = "chunked";
  const int filters = H5Pget_nfilters(properties);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    std::size_t count = 1;
    unsigned values[1] = {0};
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &count, values, 0, nullptr, nullptr);
    text += filter == H5Z_FILTER_DEFLATE   ? fmt::format(", deflate {}", values[0])
            : filter == H5Z_FILTER_SHUFFLE ? ", shuffle"
                                           : fmt::format(", filter {}", static_cast<int>(filter));
  }
  return text;
}

/// Memory for what a header claims; a claim that no machine can hold is the file's fault.
template <class T>
std::vector<T> allocate(const fs::path& path, const DatasetDescription& dataset) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
  std::int64_t elements = 1;
  for (const std::int64_t extent : dataset.shape) {
    check<InputError>(extent == 0 || elements <= kMostElements / extent, "{}: dataset {} claims more than {} elements; the file is damaged",
                      path.string(), dataset.name, kMostElements);
    elements *= extent;
  }
  try {
    return std::vector<T>(static_cast<std::size_t>(elements));
  } catch (const std::bad_alloc&) {
    throw InputError(fmt::format("{}: dataset {} claims {} elements, more than memory holds; make smaller shards or copy the file again",
                                 path.string(), dataset.name, elements));
  }
}

std::vector<std::int64_t> extents(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  return {sizes.begin(), sizes.end()};
}

}  // namespace

void prepare_hdf5() {
  // Before the first file is opened: the library reads the variable when it starts a file driver, and it outranks the property.
  static std::once_flag once;
  std::call_once(once, [] { ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1); });
  // A thread-safe library keeps one error stack, with its own printing, per thread.
  thread_local bool silent = false;
  if (!silent) H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  silent = true;
}

std::unique_lock<std::recursive_mutex> hdf5_lock() {
  static std::recursive_mutex mutex;
  return std::unique_lock(mutex);
}

std::string hdf5_error() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "unknown HDF5 error" : text;
}

Hdf5File::Hdf5File(const fs::path& path) : path_(path) {
  prepare_hdf5();
  std::error_code error;
  check<InputError>(fs::is_regular_file(path, error), "{} does not exist or is no regular file", path.string());
  std::ifstream raw(path, std::ios::binary);
  check<InputError>(raw.good(), "cannot open {} for reading", path.string());
  unsigned char start[sizeof kSignature] = {};
  raw.read(reinterpret_cast<char*>(start), sizeof start);
  check<InputError>(std::equal(std::begin(start), std::end(start), std::begin(kSignature)),
                    "{} is not an HDF5 file (its signature is missing)", path.string());
  const auto actual = static_cast<std::int64_t>(fs::file_size(path));
  const std::int64_t recorded = recorded_bytes(raw);
  check<InputError>(recorded <= actual, "{} is cut short: it has {} bytes and records {}; copy it again", path.string(), actual, recorded);
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), false, true);
#endif
  file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), H5Fclose);
  check<InputError>(file_.valid(), "cannot open {} as HDF5 ({}); it may be cut short or damaged", path.string(), hdf5_error());
}

std::vector<std::string> Hdf5File::dataset_names() const {
  std::vector<std::string> names;
  const auto collect = [](hid_t group, const char* name, const H5L_info_t* /*info*/, void* out) -> herr_t {
    const Hdf5Handle object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
    if (object.valid() && H5Iget_type(object.get()) == H5I_DATASET) static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  check<InputError>(H5Literate(file_.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) >= 0,
                    "cannot list the datasets of {}: {}", path_.string(), hdf5_error());
  return names;
}

bool Hdf5File::has(const std::string& name) const { return H5Lexists(file_.get(), name.c_str(), H5P_DEFAULT) > 0; }

Hdf5Handle Hdf5File::open_dataset(const std::string& name) const {
  if (!has(name)) {
    throw InputError(fmt::format("{} has no dataset {}; it has: {}", path_.string(), name, fmt::join(dataset_names(), ", ")));
  }
  Hdf5Handle dataset(H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  check<InputError>(dataset.valid(), "{}: cannot open dataset {}: {}", path_.string(), name, hdf5_error());
  return dataset;
}

DatasetDescription Hdf5File::describe(const std::string& name) const {
  const Hdf5Handle dataset = open_dataset(name);
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const Hdf5Handle space(H5Dget_space(dataset.get()), H5Sclose);
  const Hdf5Handle properties(H5Dget_create_plist(dataset.get()), H5Pclose);
  return {name, type_name(type.get()), extents(space.get()), storage_name(properties.get())};
}

std::vector<std::int32_t> Hdf5File::read(const std::string& name) const {
  const Hdf5Handle dataset = open_dataset(name);
  const DatasetDescription description = describe(name);
  check<InputError>(description.type.find("int") != std::string::npos && !description.type.starts_with("vlen"),
                    "{}: dataset {} holds {}, not integers", path_.string(), name, description.type);
  std::vector<std::int32_t> values = allocate<std::int32_t>(path_, description);
  if (values.empty()) return values;
  check<InputError>(H5Dread(dataset.get(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0,
                    "{}: cannot read dataset {}: {}", path_.string(), name, hdf5_error());
  return values;
}

Hdf5File::Ragged Hdf5File::read_ragged(const std::string& name) const {
  const Hdf5Handle dataset = open_dataset(name);
  const DatasetDescription description = describe(name);
  check<InputError>(description.type.starts_with("vlen int") || description.type.starts_with("vlen uint"),
                    "{}: dataset {} holds {}, not variable-length integers", path_.string(), name, description.type);
  check<InputError>(description.shape.size() == 1, "{}: dataset {} has {} axes, not 1", path_.string(), name, description.shape.size());
  Ragged ragged;
  ragged.offsets.push_back(0);
  if (description.shape[0] == 0) return ragged;
  std::vector<hvl_t> rows = allocate<hvl_t>(path_, description);
  const Hdf5Handle type(H5Tvlen_create(H5T_NATIVE_INT32), H5Tclose);
  const Hdf5Handle transfer(H5Pcreate(H5P_DATASET_XFER), H5Pclose);
  VlenArena arena;
  H5Pset_vlen_mem_manager(transfer.get(), VlenArena::allocate, &arena, VlenArena::release, &arena);
  check<InputError>(H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, transfer.get(), rows.data()) >= 0,
                    "{}: cannot read dataset {}: {}", path_.string(), name, hdf5_error());
  std::size_t total = 0;
  for (const hvl_t& row : rows) total += row.len;
  ragged.values.reserve(total);
  ragged.offsets.reserve(rows.size() + 1);
  for (const hvl_t& row : rows) {
    const auto* const values = static_cast<const std::int32_t*>(row.p);
    if (row.len > 0) ragged.values.insert(ragged.values.end(), values, values + row.len);
    ragged.offsets.push_back(static_cast<std::int64_t>(ragged.values.size()));
  }
  return ragged;
}

std::string hdf5_version() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::vector<DatasetDescription> describe_datasets(const fs::path& path) {
  const Hdf5File file(path);
  std::vector<DatasetDescription> descriptions;
  for (const std::string& name : file.dataset_names()) descriptions.push_back(file.describe(name));
  return descriptions;
}

}  // namespace flashbert
