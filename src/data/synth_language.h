#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/random_stream.h"

namespace flashbert {

/// The synthetic language: words fall into topics, a topic into 8 phrases, a phrase into 8 words, one for each place of a metre. The word
/// at token position i of a sample is its phrase's word number i mod 8. A sentence stays in one topic; its first phrase is any of the
/// topic, from word to word the phrase stays with probability kContinuation, else it becomes any phrase of the topic. Ids: 5 special
/// tokens, then topic by topic, phrase by phrase; ids past the last whole topic are never used. The same language for every seed: a seed
/// picks samples, not rules.
class SynthLanguage {
 public:
  enum SpecialToken : std::int32_t { kPad = 0, kUnknown = 1, kClassify = 2, kSeparator = 3, kMask = 4 };
  static constexpr std::int64_t kSpecialTokens = 5;
  static constexpr std::int64_t kPhraseWords = 8;
  static constexpr std::int64_t kPhrases = 8;  ///< of a topic
  static constexpr std::int64_t kTopicWords = kPhrases * kPhraseWords;
  static constexpr double kContinuation = 0.9;
  static constexpr std::int64_t kShortestSentence = 2;
  /// Smallest vocabulary: special tokens and two topics (next-sentence prediction needs another topic).
  static constexpr std::int64_t kSmallestVocab = kSpecialTokens + 2 * kTopicWords;

  /// Throws ConfigError for a vocabulary below kSmallestVocab.
  explicit SynthLanguage(std::int64_t vocab);
  [[nodiscard]] std::int64_t vocab() const { return vocab_; }
  [[nodiscard]] std::int64_t topics() const { return (vocab_ - kSpecialTokens) / kTopicWords; }
  /// The word of a phrase at a token position of the sample.
  [[nodiscard]] static std::int32_t word(std::int64_t topic, std::int64_t phrase, std::int64_t position) {
    return static_cast<std::int32_t>(kSpecialTokens + topic * kTopicWords + phrase * kPhraseWords + position % kPhraseWords);
  }
  /// Topic of an id, -1 for special tokens and unused ids.
  [[nodiscard]] std::int64_t topic_of(std::int32_t id) const;
  /// Phrase of a word in its topic, 0 .. kPhrases - 1, and the word's place in it.
  [[nodiscard]] static std::int64_t phrase_of(std::int32_t id) { return (id - kSpecialTokens) % kTopicWords / kPhraseWords; }
  [[nodiscard]] static std::int64_t place_of(std::int32_t id) { return (id - kSpecialTokens) % kPhraseWords; }

  /// Sentences are divided for ever into two pools by a hash of their words: a quarter may be used for evaluation only, the rest for
  /// training only. So no sentence of one set occurs in the other, for any seeds and sizes.
  enum class Pool { kTraining, kEvaluation };
  [[nodiscard]] static Pool pool_of(std::span<const std::int32_t> sentence);
  /// Appends a sentence of `words` words (>= kShortestSentence) of the topic and the pool to the tokens of a sample.
  void append_sentence(std::int64_t topic, std::int64_t words, Pool pool, RandomStream& random, std::vector<std::int32_t>& tokens) const;

 private:
  std::int64_t vocab_;
};

/// How the reference masks: of the chosen words 80 % become [MASK], 10 % stay, 10 % become any of the vocabulary's ids.
struct MaskingRule {
  static constexpr double kMasked = 0.8;
  static constexpr double kKept = 0.1;
  static constexpr double kReplaced = 0.1;
};

}  // namespace flashbert
