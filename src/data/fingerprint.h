#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/digest.h"
#include "data/sample_store.h"

namespace flashbert {

/// Digests of samples that do not depend on the layout they are stored in. A sample line is
/// `input_ids|segment_ids|masked_lm_positions|masked_lm_ids|next_sentence_label` and a line feed, numbers in decimal, joined by commas,
/// without padding: `101,7592,103,102,2088,102|0,0,0,0,1,1|2|1010|0`.
class SampleFingerprint {
 public:
  void add(const SampleView& sample);
  void add(const SampleStore& samples);
  /// sha256 of all sample lines in the order added; call once, after the last add.
  std::string samples_sha256() { return in_order_.hex(); }
  /// The same for any order: sha256 over the sorted sha256 (hexadecimal, one a line) of each sample line; a lone line
  /// feed where there is no sample.
  [[nodiscard]] std::string samples_sorted_sha256() const;

 private:
  Digest in_order_{Digest::Algorithm::kSha256};
  std::vector<std::string> line_digests_;
};

/// The reference's hdf5_md5 script: md5 of each input_ids row as stored (padding included) written `[101, 2023, 102]`, then md5 of the
/// list of these written `['hex', 'hex']`.
std::string hdf5_md5(const std::filesystem::path& path);

/// "samples_sha256", "samples_sorted_sha256" and "hdf5_md5" of one shard. Throws InputError as inspect_shard and read_shard do; ids are
/// not checked against a vocabulary.
std::map<std::string, std::string> fingerprints(const std::filesystem::path& path);

}  // namespace flashbert
