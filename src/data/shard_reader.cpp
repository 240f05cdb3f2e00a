#include "data/shard_reader.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "core/error.h"
#include "data/dataset_names.h"
#include "data/hdf5_file.h"

namespace flashbert {
namespace fs = std::filesystem;
namespace {

using namespace dataset_names;

bool has_hdf5_signature(const fs::path& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), start.size()) && start[0] == '\x89' && start[1] == 'H' && start[2] == 'D' && start[3] == 'F';
}

void refuse_other_layouts(const Hdf5File& file) {
  for (const auto& [dataset, layout] : {std::pair{"packed_input_len", "packed"}, std::pair{"next_sentence_positions", "Habana's packed"}}) {
    check<InputError>(!file.has(dataset), "{} has the {} layout (dataset {}); this version reads fixed and varlength shards",
                      file.path().string(), layout, dataset);
  }
}

void check_rows(const Hdf5File& file, const DatasetDescription& dataset, std::int64_t rows, std::size_t rank) {
  check<InputError>(dataset.shape.size() == rank, "{}: dataset {} has {} axes, not {}", file.path().string(), dataset.name,
                    dataset.shape.size(), rank);
  check<InputError>(dataset.shape[0] == rows, "{}: dataset {} has {} rows, {} has {}", file.path().string(), dataset.name, dataset.shape[0],
                    kInputIds, rows);
}

void check_integers(const Hdf5File& file, const DatasetDescription& dataset, bool ragged) {
  const bool fits = dataset.type.starts_with(ragged ? "vlen " : "") && dataset.type.find("int") != std::string::npos &&
                    (ragged || !dataset.type.starts_with("vlen"));
  check<InputError>(fits, "{}: dataset {} holds {}; {} are expected", file.path().string(), dataset.name, dataset.type,
                    ragged ? "variable-length integers" : "integers");
}

/// The values of one sample before it is known to be good.
struct RawSample {
  std::span<const std::int32_t> ids, segments, positions, labels;
  std::int32_t next_sentence_label;
};

/// Checks a sample and appends it; `row` for messages.
class Collector {
 public:
  Collector(const ShardInfo& info, const SampleLimits& limits) : info_(info), limits_(limits) {}

  void append(const RawSample& raw, std::int64_t row) {
    const auto length = static_cast<std::int64_t>(raw.ids.size());
    refuse(length == 0, row, "has length 0");
    refuse(limits_.max_positions > 0 && length > limits_.max_positions, row, "has {} tokens, the model has {} positions", length,
           limits_.max_positions);
    refuse(raw.segments.size() != raw.ids.size(), row, "has {} segment ids for {} tokens", raw.segments.size(), length);
    refuse(raw.positions.size() != raw.labels.size(), row, "has {} masked positions and {} labels", raw.positions.size(),
           raw.labels.size());
    segments_.clear();
    const std::int64_t segments_limit = limits_.type_vocab > 0 ? limits_.type_vocab : 256;  // a segment id is one byte
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int32_t id = raw.ids[static_cast<std::size_t>(i)];
      refuse(id < 0 || (limits_.vocab > 0 && id >= limits_.vocab), row, "has token id {} at position {}, the vocabulary has {}", id, i,
             limits_.vocab);
      const std::int32_t segment = raw.segments[static_cast<std::size_t>(i)];
      refuse(segment < 0 || segment >= segments_limit, row, "has segment id {} at position {}, the model has {} segments", segment, i,
             segments_limit);
      segments_.push_back(static_cast<std::uint8_t>(segment));
    }
    check_masks(raw, length, row);
    refuse(raw.next_sentence_label != 0 && raw.next_sentence_label != 1, row, "has next-sentence label {}, not 0 or 1",
           raw.next_sentence_label);
    store_.append({.token_ids = raw.ids,
                   .segment_ids = segments_,
                   .masked_positions = raw.positions,
                   .masked_labels = raw.labels,
                   .next_sentence_label = raw.next_sentence_label});
  }

  template <class... Args>
  void refuse(bool bad, std::int64_t row, fmt::format_string<Args...> format, Args&&... args) const {
    if (bad) throw InputError(fmt::format("{}: row {} {}", info_.path.string(), row, fmt::format(format, std::forward<Args>(args)...)));
  }
  SampleStore take() { return std::move(store_); }
  SampleStore& store() { return store_; }

 private:
  void check_masks(const RawSample& raw, std::int64_t length, std::int64_t row) const {
    std::int32_t previous = 0;
    for (std::size_t i = 0; i < raw.positions.size(); ++i) {
      const std::int32_t position = raw.positions[i];
      refuse(position < 0 || position >= length, row, "masks position {}, outside its {} tokens", position, length);
      refuse(position == 0, row, "masks position 0, which is [CLS]");
      refuse(position <= previous, row, "has masked positions that do not ascend: {} after {}", position, previous);
      previous = position;
      const std::int32_t label = raw.labels[i];
      refuse(label <= 0 || (limits_.vocab > 0 && label >= limits_.vocab), row, "has label {} at masked position {}, the vocabulary has {}",
             label, position, limits_.vocab);
    }
  }
  const ShardInfo& info_;
  const SampleLimits& limits_;
  SampleStore store_;
  std::vector<std::uint8_t> segments_;
};

template <class T>
std::span<const T> part(const std::vector<T>& values, std::int64_t begin, std::int64_t count) {
  return {values.data() + begin, static_cast<std::size_t>(count)};
}

/// Real predictions of a padded row: positions until the first 0 ([CLS] is never masked); a label past them is an error.
std::int64_t real_predictions(const Collector& collector, std::span<const std::int32_t> positions, std::span<const std::int32_t> labels,
                              std::int64_t row) {
  const auto end = std::find(positions.begin(), positions.end(), 0);
  const auto count = end - positions.begin();
  for (std::size_t i = static_cast<std::size_t>(count); i < positions.size(); ++i) {
    collector.refuse(positions[i] != 0, row, "has a masked position {} after an unused slot", positions[i]);
    collector.refuse(labels[i] != 0, row, "has label {} in slot {}, which masks no position", labels[i], i);
  }
  return count;
}

SampleStore read_fixed(const ShardInfo& info, const SampleLimits& limits) {
  const Hdf5File file(info.path);
  const auto ids = file.read(kInputIds);
  const auto mask = file.read(kInputMask);
  const auto segments = file.read(kSegmentIds);
  const auto positions = file.read(kPositions);
  const auto labels = file.read(kLabels);
  const auto next = file.read(kNextSentence);
  Collector collector(info, limits);
  collector.store().reserve(info.samples, info.samples * info.seq_len / 2, info.samples * info.max_predictions / 2);
  for (std::int64_t row = 0; row < info.samples; ++row) {
    const auto row_mask = part(mask, row * info.seq_len, info.seq_len);
    const auto length = std::find(row_mask.begin(), row_mask.end(), 0) - row_mask.begin();
    for (std::int64_t i = 0; i < info.seq_len; ++i) {
      const std::int32_t value = row_mask[static_cast<std::size_t>(i)];
      collector.refuse(value != (i < length ? 1 : 0), row, "has an input_mask that is not ones followed by zeros: {} at position {}", value,
                       i);
    }
    const auto row_positions = part(positions, row * info.max_predictions, info.max_predictions);
    const auto row_labels = part(labels, row * info.max_predictions, info.max_predictions);
    const std::int64_t predictions = real_predictions(collector, row_positions, row_labels, row);
    collector.append({.ids = part(ids, row * info.seq_len, length),
                      .segments = part(segments, row * info.seq_len, length),
                      .positions = row_positions.first(static_cast<std::size_t>(predictions)),
                      .labels = row_labels.first(static_cast<std::size_t>(predictions)),
                      .next_sentence_label = next[static_cast<std::size_t>(row)]},
                     row);
  }
  return collector.take();
}

SampleStore read_varlength(const ShardInfo& info, const SampleLimits& limits) {
  const Hdf5File file(info.path);
  const auto ids = file.read_ragged(kInputIds);
  const auto segments = file.read_ragged(kSegmentIds);
  const auto positions = file.read_ragged(kPositions);
  const auto labels = file.read_ragged(kLabels);
  const auto next = file.read(kNextSentence);
  Collector collector(info, limits);
  collector.store().reserve(info.samples, static_cast<std::int64_t>(ids.values.size()), static_cast<std::int64_t>(positions.values.size()));
  for (std::int64_t row = 0; row < info.samples; ++row) {
    collector.append({.ids = ids.row(static_cast<std::size_t>(row)),
                      .segments = segments.row(static_cast<std::size_t>(row)),
                      .positions = positions.row(static_cast<std::size_t>(row)),
                      .labels = labels.row(static_cast<std::size_t>(row)),
                      .next_sentence_label = next[static_cast<std::size_t>(row)]},
                     row);
  }
  return collector.take();
}

}  // namespace

std::string_view name_of(ShardLayout layout) { return layout == ShardLayout::kFixed ? "fixed" : "varlength"; }

std::vector<fs::path> list_shards(const fs::path& path) {
  std::error_code error;
  check<InputError>(fs::exists(path, error), "{} does not exist; give a shard or a folder of shards", path.string());
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> named;
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    const bool hidden = name.starts_with('.');  // what a killed writer left
    if (!entry.is_regular_file(error) || hidden || entry.path().extension() == ".lst") continue;
    if (name.starts_with("part")) {
      named.push_back(entry.path());  // whatever is in it: a damaged shard must not be passed over
    } else if (has_hdf5_signature(entry.path())) {
      others.push_back(entry.path());
    }
  }
  check<InputError>(!error, "cannot list {}: {}", path.string(), error.message());
  std::vector<fs::path>& shards = named.empty() ? others : named;
  check<InputError>(!shards.empty(), "{} holds no shard: no HDF5 file is directly in it", path.string());
  std::sort(shards.begin(), shards.end());
  return shards;
}

ShardInfo inspect_shard(const fs::path& path) {
  const Hdf5File file(path);
  refuse_other_layouts(file);
  const DatasetDescription ids = file.describe(kInputIds);
  const bool ragged = ids.type.starts_with("vlen");
  check_integers(file, ids, ragged);
  check<InputError>(ids.shape.size() == (ragged ? 1U : 2U), "{}: dataset {} has {} axes", path.string(), kInputIds, ids.shape.size());
  ShardInfo info{.path = path, .layout = ragged ? ShardLayout::kVarlength : ShardLayout::kFixed, .samples = ids.shape[0]};
  for (const char* const name : {kSegmentIds, kPositions, kLabels}) {
    const DatasetDescription dataset = file.describe(name);
    check_integers(file, dataset, ragged);
    check_rows(file, dataset, info.samples, ragged ? 1 : 2);
  }
  const DatasetDescription next = file.describe(kNextSentence);
  check_integers(file, next, false);
  // A column of one does not change what is read.
  check_rows(file, next, info.samples, next.shape.size() == 2 && next.shape[1] == 1 ? 2 : 1);
  if (ragged) return info;
  const DatasetDescription mask = file.describe(kInputMask);
  check_integers(file, mask, false);
  check_rows(file, mask, info.samples, 2);
  info.wide_ids = ids.type.ends_with("32") || ids.type.ends_with("64");
  info.seq_len = ids.shape[1];
  info.max_predictions = file.describe(kPositions).shape[1];
  for (const char* const name : {kSegmentIds, kInputMask}) {
    const std::int64_t width = file.describe(name).shape[1];
    check<InputError>(width == info.seq_len, "{}: dataset {} has rows of {}, {} of {}", path.string(), name, width, kInputIds,
                      info.seq_len);
  }
  const std::int64_t label_width = file.describe(kLabels).shape[1];
  check<InputError>(label_width == info.max_predictions, "{}: dataset {} has rows of {}, {} of {}", path.string(), kLabels, label_width,
                    kPositions, info.max_predictions);
  return info;
}

SampleStore read_shard(const ShardInfo& info, const SampleLimits& limits) {
  return info.layout == ShardLayout::kFixed ? read_fixed(info, limits) : read_varlength(info, limits);
}

}  // namespace flashbert
