#include "data/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string_view>

#include "data/dataset_names.h"
#include "data/hdf5_file.h"
#include "data/shard_reader.h"

namespace flashbert {
namespace {

void append_number(std::string& text, std::int64_t number) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  text.append(digits, end);
}

template <class T>
void append_joined(std::string& text, std::span<const T> values, std::string_view separator) {
  bool first = true;
  for (const T value : values) {
    if (!first) text += separator;
    first = false;
    append_number(text, value);
  }
}

std::string digest_of(std::string_view text, Digest::Algorithm algorithm) {
  Digest digest(algorithm);
  digest.update(text);
  return digest.hex();
}

std::string sample_line(const SampleView& sample) {
  std::string line;
  append_joined(line, sample.token_ids, ",");
  line += '|';
  append_joined(line, sample.segment_ids, ",");
  line += '|';
  append_joined(line, sample.masked_positions, ",");
  line += '|';
  append_joined(line, sample.masked_labels, ",");
  line += '|';
  append_number(line, sample.next_sentence_label);
  line += '\n';
  return line;
}

/// The rows of one file, as Python prints them.
class RowDigests {
 public:
  void add(std::span<const std::int32_t> row) {
    std::string text = "[";
    append_joined(text, row, ", ");
    text += ']';
    list_ += list_.size() > 1 ? ", '" : "'";
    list_ += digest_of(text, Digest::Algorithm::kMd5) + "'";
  }
  [[nodiscard]] std::string hex() const { return digest_of(list_ + "]", Digest::Algorithm::kMd5); }

 private:
  std::string list_ = "[";
};

}  // namespace

void SampleFingerprint::add(const SampleView& sample) {
  const std::string line = sample_line(sample);
  in_order_.update(line);
  line_digests_.push_back(digest_of(line, Digest::Algorithm::kSha256));
}

void SampleFingerprint::add(const SampleStore& samples) {
  for (std::int64_t row = 0; row < samples.size(); ++row) add(samples[row]);
}

std::string SampleFingerprint::samples_sorted_sha256() const {
  std::vector<std::string> sorted = line_digests_;
  std::sort(sorted.begin(), sorted.end());
  Digest digest(Digest::Algorithm::kSha256);
  if (sorted.empty()) digest.update("\n");  // the published values join the lines and end the text
  for (const std::string& line : sorted) {
    digest.update(line);
    digest.update("\n");
  }
  return digest.hex();
}

std::string hdf5_md5(const std::filesystem::path& path) {
  const Hdf5File file(path);
  const DatasetDescription ids = file.describe(dataset_names::kInputIds);
  RowDigests rows;
  if (ids.type.starts_with("vlen")) {
    const Hdf5File::Ragged ragged = file.read_ragged(dataset_names::kInputIds);
    for (std::size_t row = 0; row + 1 < ragged.offsets.size(); ++row) rows.add(ragged.row(row));
    return rows.hex();
  }
  const std::vector<std::int32_t> values = file.read(dataset_names::kInputIds);
  const auto width = static_cast<std::size_t>(ids.shape.size() == 2 ? ids.shape[1] : 1);
  for (std::size_t begin = 0; begin < values.size(); begin += width) rows.add({values.data() + begin, width});
  return rows.hex();
}

std::map<std::string, std::string> fingerprints(const std::filesystem::path& path) {
  SampleFingerprint samples;
  samples.add(read_shard(inspect_shard(path), {.vocab = 0, .max_positions = 0, .type_vocab = 0}));
  return {{"samples_sha256", samples.samples_sha256()},
          {"samples_sorted_sha256", samples.samples_sorted_sha256()},
          {"hdf5_md5", hdf5_md5(path)}};
}

}  // namespace flashbert
