#pragma once

/// Names of the datasets in a shard, as the reference writes them.
namespace flashbert::dataset_names {

inline constexpr const char* kInputIds = "input_ids";
inline constexpr const char* kInputMask = "input_mask";
inline constexpr const char* kSegmentIds = "segment_ids";
inline constexpr const char* kPositions = "masked_lm_positions";
inline constexpr const char* kLabels = "masked_lm_ids";
inline constexpr const char* kNextSentence = "next_sentence_labels";

}  // namespace flashbert::dataset_names
