#include "data/synth_optimum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

// A sentence of a known topic is a hidden Markov chain over the topic's 8 phrases (the position tells which word of the phrase stands
// there); masking is its noise. Forward-backward gives, for each
// topic, the likelihood of the sentence and the posterior of each word; the topics of the two sentences are then weighed together (equal
// with probability 1/2, else any other). A word that is not being asked about was chosen for prediction with probability
// `chosen_share`, independently of the others; truly the number of chosen words is fixed, so the predictor is the best one up to that
// coupling, and its figure is one that a model can reach. Division into pools is ignored as well: no model can learn a hash.

namespace flashbert {
namespace {

constexpr std::int64_t kPhrases = SynthLanguage::kPhrases;
constexpr double kContinuation = SynthLanguage::kContinuation;
constexpr double kJump = (1.0 - kContinuation) / static_cast<double>(kPhrases);  // to each phrase of the topic
using Distribution = std::array<double, kPhrases>;

double sum(const Distribution& values) { return std::accumulate(values.begin(), values.end(), 0.0); }
double normalise(Distribution& values) {
  const double total = sum(values);
  for (double& value : values) value /= total;
  return total;
}

/// P(what is seen | true word) of one position: `same` where they are equal, `other` elsewhere.
struct Emission {
  double same = 0.0, other = 0.0;
};

class Noise {
 public:
  Noise(std::int64_t vocab, double chosen_share)
      : replaced_(MaskingRule::kReplaced / static_cast<double>(vocab)), chosen_share_(chosen_share) {}
  [[nodiscard]] Emission if_chosen(std::int32_t seen) const {
    if (seen == SynthLanguage::kMask) return {MaskingRule::kMasked + replaced_, MaskingRule::kMasked + replaced_};
    return {MaskingRule::kKept + replaced_, replaced_};
  }
  [[nodiscard]] Emission in_general(std::int32_t seen) const {
    const Emission chosen = if_chosen(seen);
    const double untouched = seen == SynthLanguage::kMask ? 0.0 : 1.0 - chosen_share_;
    return {untouched + chosen_share_ * chosen.same, chosen_share_ * chosen.other};
  }

 private:
  double replaced_;
  double chosen_share_;
};

/// Forward-backward over one sentence, whose first word stands at token position `begin`, under one topic.
class Chain {
 public:
  Chain(const Noise& noise, std::span<const std::int32_t> seen, std::size_t begin, std::int64_t topic) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const Emission emission = noise.in_general(seen[i]);
      Distribution& likelihood = likelihoods_.emplace_back();
      for (std::size_t p = 0; p < kPhrases; ++p) {
        const bool same = seen[i] == SynthLanguage::word(topic, static_cast<std::int64_t>(p), static_cast<std::int64_t>(begin + i));
        likelihood[p] = same ? emission.same : emission.other;
      }
    }
    forward();
  }
  [[nodiscard]] double log_likelihood() const { return log_likelihood_; }

  /// P(phrase at word i | all that is seen, topic), for every word.
  [[nodiscard]] std::vector<Distribution> posteriors() const {
    std::vector<Distribution> result = forward_;
    Distribution backward;
    backward.fill(1.0);
    for (std::size_t i = result.size(); i-- > 0;) {
      for (std::size_t p = 0; p < kPhrases; ++p) result[i][p] *= backward[p];
      normalise(result[i]);
      for (std::size_t p = 0; p < kPhrases; ++p) backward[p] *= likelihoods_[i][p];
      const double total = sum(backward);
      for (double& value : backward) value = kContinuation * value + kJump * total;
      normalise(backward);
    }
    return result;
  }

 private:
  void forward() {
    Distribution prior;
    prior.fill(1.0 / static_cast<double>(kPhrases));
    for (const Distribution& likelihood : likelihoods_) {
      Distribution& state = forward_.emplace_back();
      for (std::size_t p = 0; p < kPhrases; ++p) state[p] = prior[p] * likelihood[p];
      log_likelihood_ += std::log(normalise(state));
      for (std::size_t p = 0; p < kPhrases; ++p) prior[p] = kContinuation * state[p] + kJump;
    }
  }
  std::vector<Distribution> likelihoods_, forward_;
  double log_likelihood_ = 0.0;
};

struct Sentence {
  std::size_t begin = 0;
  std::span<const std::int32_t> seen;
  std::vector<Chain> chains;            ///< one a topic
  std::vector<double> likelihoods;      ///< of the topics, the largest 1
  std::vector<double> topic_posterior;  ///< given both sentences
};

Sentence make_sentence(const SynthLanguage& language, const Noise& noise, std::span<const std::int32_t> tokens, std::size_t begin,
                       std::size_t end) {
  Sentence sentence{.begin = begin, .seen = tokens.subspan(begin, end - begin), .chains = {}, .likelihoods = {}, .topic_posterior = {}};
  double largest = -INFINITY;
  for (std::int64_t topic = 0; topic < language.topics(); ++topic) {
    sentence.chains.emplace_back(noise, sentence.seen, begin, topic);
    largest = std::max(largest, sentence.chains.back().log_likelihood());
  }
  for (const Chain& chain : sentence.chains) sentence.likelihoods.push_back(std::exp(chain.log_likelihood() - largest));
  return sentence;
}

/// Weighs the topics of a sentence with what the other one says of them.
void weigh_topics(Sentence& sentence, const Sentence& other) {
  const double topics = static_cast<double>(sentence.likelihoods.size());
  const double other_total = std::accumulate(other.likelihoods.begin(), other.likelihoods.end(), 0.0);
  double total = 0.0;
  for (std::size_t k = 0; k < sentence.likelihoods.size(); ++k) {
    const double equal = other.likelihoods[k];
    const double different = (other_total - equal) / (topics - 1.0);
    sentence.topic_posterior.push_back(sentence.likelihoods[k] * 0.5 * (equal + different));
    total += sentence.topic_posterior.back();
  }
  for (double& weight : sentence.topic_posterior) weight /= total;
}

struct Choice {
  std::int32_t word = 0;
  double weight = 0.0, total = 0.0;
};

/// Adds the predictions at the sentence's masked positions.
void predict(const SynthLanguage& language, const Noise& noise, const Sentence& sentence, const SampleView& sample,
             BestPrediction& result) {
  constexpr double kNegligible = 1e-12;  // a topic this unlikely changes the figure by less than its own weight
  std::vector<Choice> choices(sample.masked_positions.size());
  for (std::int64_t topic = 0; topic < language.topics(); ++topic) {
    const double topic_weight = sentence.topic_posterior[static_cast<std::size_t>(topic)];
    if (topic_weight < kNegligible) continue;
    const std::vector<Distribution> posteriors = sentence.chains[static_cast<std::size_t>(topic)].posteriors();
    for (std::size_t slot = 0; slot < choices.size(); ++slot) {
      const std::size_t at = static_cast<std::size_t>(sample.masked_positions[slot]) - sentence.begin;
      if (at >= sentence.seen.size()) continue;  // in the other sentence (positions before wrap to large numbers)
      const std::int32_t seen = sentence.seen[at];
      // The posterior took the position as any other; being asked about, it was chosen.
      const Emission general = noise.in_general(seen);
      const Emission chosen = noise.if_chosen(seen);
      for (std::size_t p = 0; p < kPhrases; ++p) {
        const std::int32_t word = SynthLanguage::word(topic, static_cast<std::int64_t>(p), sample.masked_positions[slot]);
        const double correction = word == seen ? chosen.same / general.same : chosen.other / general.other;
        const double weight = topic_weight * posteriors[at][p] * correction;
        choices[slot].total += weight;
        if (weight > choices[slot].weight) {
          choices[slot].weight = weight;
          choices[slot].word = word;
        }
      }
    }
  }
  for (std::size_t slot = 0; slot < choices.size(); ++slot) {
    if (choices[slot].total == 0.0) continue;
    result.expected_correct += choices[slot].weight / choices[slot].total;
    result.correct += choices[slot].word == sample.masked_labels[slot] ? 1 : 0;
    ++result.masked;
  }
}

}  // namespace

BestPrediction best_prediction(const SynthLanguage& language, const SampleView& sample) {
  constexpr std::size_t kFrameTokens = 3;  // [CLS] A [SEP] B [SEP]
  const std::size_t length = sample.token_ids.size();
  const auto second =
      static_cast<std::size_t>(std::find(sample.segment_ids.begin(), sample.segment_ids.end(), 1) - sample.segment_ids.begin());
  const Noise noise(language.vocab(), static_cast<double>(sample.masked_positions.size()) / static_cast<double>(length - kFrameTokens));
  Sentence a = make_sentence(language, noise, sample.token_ids, 1, second - 1);
  Sentence b = make_sentence(language, noise, sample.token_ids, second, length - 1);
  weigh_topics(a, b);
  weigh_topics(b, a);
  BestPrediction result;
  predict(language, noise, a, sample, result);
  predict(language, noise, b, sample, result);
  return result;
}

}  // namespace flashbert
