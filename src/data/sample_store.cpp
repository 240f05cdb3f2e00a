#include "data/sample_store.h"

namespace flashbert {
namespace {

template <class T>
std::span<const T> slice(const std::vector<T>& values, std::int64_t begin, std::int64_t end) {
  return {values.data() + begin, static_cast<std::size_t>(end - begin)};
}

template <class T>
std::int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<std::int64_t>(values.capacity() * sizeof(T));
}

}  // namespace

SampleView SampleStore::operator[](std::int64_t row) const {
  const auto at = static_cast<std::size_t>(row);
  const std::int64_t token = token_offsets_[at];
  const std::int64_t token_end = token_offsets_[at + 1];
  const std::int64_t masked = masked_offsets_[at];
  const std::int64_t masked_end = masked_offsets_[at + 1];
  return {.token_ids = slice(token_ids_, token, token_end),
          .segment_ids = slice(segment_ids_, token, token_end),
          .masked_positions = slice(masked_positions_, masked, masked_end),
          .masked_labels = slice(masked_labels_, masked, masked_end),
          .next_sentence_label = next_sentence_labels_[at]};
}

void SampleStore::append(const SampleView& sample) {
  token_ids_.insert(token_ids_.end(), sample.token_ids.begin(), sample.token_ids.end());
  segment_ids_.insert(segment_ids_.end(), sample.segment_ids.begin(), sample.segment_ids.end());
  masked_positions_.insert(masked_positions_.end(), sample.masked_positions.begin(), sample.masked_positions.end());
  masked_labels_.insert(masked_labels_.end(), sample.masked_labels.begin(), sample.masked_labels.end());
  token_offsets_.push_back(static_cast<std::int64_t>(token_ids_.size()));
  masked_offsets_.push_back(static_cast<std::int64_t>(masked_positions_.size()));
  next_sentence_labels_.push_back(sample.next_sentence_label);
}

void SampleStore::reserve(std::int64_t samples, std::int64_t tokens, std::int64_t masked) {
  token_ids_.reserve(static_cast<std::size_t>(tokens));
  segment_ids_.reserve(static_cast<std::size_t>(tokens));
  masked_positions_.reserve(static_cast<std::size_t>(masked));
  masked_labels_.reserve(static_cast<std::size_t>(masked));
  token_offsets_.reserve(static_cast<std::size_t>(samples) + 1);
  masked_offsets_.reserve(static_cast<std::size_t>(samples) + 1);
  next_sentence_labels_.reserve(static_cast<std::size_t>(samples));
}

}  // namespace flashbert
