#include "data/synth_language.h"

#include <stdexcept>

#include "core/error.h"

namespace flashbert {

SynthLanguage::SynthLanguage(std::int64_t vocab) : vocab_(vocab) {
  check<ConfigError>(vocab >= kSmallestVocab, "vocab is {}; the synthetic language needs at least {}", vocab, kSmallestVocab);
}

std::int64_t SynthLanguage::topic_of(std::int32_t id) const {
  const std::int64_t topic = (id - kSpecialTokens) / kTopicWords;
  return id < kSpecialTokens || topic >= topics() ? -1 : topic;
}

SynthLanguage::Pool SynthLanguage::pool_of(std::span<const std::int32_t> sentence) {
  // FNV-1a over the ids, then the finaliser of MurmurHash3: FNV's high bits mix badly for short input.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::int32_t id : sentence) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3ULL;
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdULL;
  hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53ULL;
  return (hash ^ hash >> 33) % 4 == 0 ? Pool::kEvaluation : Pool::kTraining;
}

void SynthLanguage::append_sentence(std::int64_t topic, std::int64_t words, Pool pool, RandomStream& random,
                                    std::vector<std::int32_t>& tokens) const {
  // A draw from the wrong pool is thrown away. Even of two words each topic has 64 sentences at a place, so this many draws never all fail.
  constexpr int kMostDraws = 1'000'000;
  const std::size_t begin = tokens.size();
  for (int draw = 0; draw < kMostDraws; ++draw) {
    tokens.resize(begin);
    std::int64_t phrase = 0;
    for (std::int64_t i = 0; i < words; ++i) {
      const bool stays = i > 0 && random.unit() < kContinuation;
      if (!stays) phrase = random.below(kPhrases);
      tokens.push_back(word(topic, phrase, static_cast<std::int64_t>(tokens.size())));
    }
    if (pool_of(std::span(tokens).subspan(begin)) == pool) return;
  }
  throw std::logic_error("no sentence found for its pool");
}

}  // namespace flashbert
