#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace flashbert {

/// One pre-tokenised sample, unpadded: [CLS] A [SEP] B [SEP]. The one type behind all readers; spans point into a SampleStore.
struct SampleView {
  std::span<const std::int32_t> token_ids;         ///< (S) with the masks already applied; S >= 1
  std::span<const std::uint8_t> segment_ids;       ///< (S) 0 or 1
  std::span<const std::int32_t> masked_positions;  ///< (P) 0-based, ascending, < S, never 0 ([CLS]); P may be 0
  std::span<const std::int32_t> masked_labels;     ///< (P) the original ids
  std::int32_t next_sentence_label = 0;            ///< 0 = real next, 1 = random next
};

/// Samples of one shard in memory, packed back to back.
class SampleStore {
 public:
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(next_sentence_labels_.size()); }
  [[nodiscard]] std::int64_t tokens() const { return static_cast<std::int64_t>(token_ids_.size()); }
  [[nodiscard]] SampleView operator[](std::int64_t row) const;
  void append(const SampleView& sample);
  void reserve(std::int64_t samples, std::int64_t tokens, std::int64_t masked);

 private:
  std::vector<std::int32_t> token_ids_, masked_positions_, masked_labels_;
  std::vector<std::uint8_t> segment_ids_;
  std::vector<std::int64_t> token_offsets_{0}, masked_offsets_{0};
  std::vector<std::int32_t> next_sentence_labels_;
};

}  // namespace flashbert
