#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/rounding.h"

namespace flashbert {

/// Both ends included.
struct IntegerRange {
  std::int64_t least = 0, most = 0;
};

/// Shape and rates of a BERT pre-training model; defaults are BERT-large uncased (docs/benchmark-rules.md).
struct BertConfig {
  std::int64_t layers = 24;
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  std::int64_t intermediate = 4096;
  std::int64_t vocab = 30522;
  std::int64_t max_positions = 512;
  std::int64_t type_vocab = 2;
  float hidden_dropout = 0.1F;
  float attention_dropout = 0.1F;

  // What each may be. Positions, layers and heads share words of the dropout counter (kernels/formulas.h).
  static constexpr IntegerRange kLayers = {.least = 1, .most = 4000};
  static constexpr IntegerRange kHidden = {.least = 8, .most = 65536};
  static constexpr IntegerRange kHeads = {.least = 1, .most = 65535};
  static constexpr IntegerRange kIntermediate = {.least = 8, .most = 1 << 20};
  static constexpr IntegerRange kVocab = {.least = 8, .most = 1 << 24};
  static constexpr IntegerRange kPositions = {.least = 1, .most = 65535};
  static constexpr IntegerRange kTypeVocab = {.least = 1, .most = 256};
  static constexpr double kMostDropout = 0.99;  ///< from 0

  static constexpr std::int64_t kVocabMultiple = 64;
  [[nodiscard]] std::int64_t head_dim() const { return hidden / heads; }
  /// Vocabulary rows in memory: rounded up to a multiple of 64; the extra columns are masked and never appear in a file.
  [[nodiscard]] std::int64_t padded_vocab() const { return round_up(vocab, kVocabMultiple); }
  /// Throws ConfigError naming the key, the value and the limit: heads must divide hidden, head size a multiple of 8 up to 256, ...
  void validate() const;
};

/// What a Hugging Face style config.json says. Throws InputError (unreadable, no JSON, wrong type, hidden_act other than gelu,
/// gelu_new or gelu_pytorch_tanh, layer_norm_eps other than 1e-12). Keys that are absent keep the defaults above.
/// gelu means the tanh form here; `note` receives the sentence for the log.
BertConfig read_hugging_face_config(const std::filesystem::path& path, std::string* note);

/// The config.json transformers reads back as BertForPreTraining.
std::string hugging_face_config_text(const BertConfig& config);

}  // namespace flashbert
