#include "data/synth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "core/error.h"
#include "data/random_stream.h"
#include "data/shard_writer.h"
#include "data/synth_language.h"
#include "data/synth_optimum.h"
#include "data/wikipedia_lengths.h"

// Samples of the language in synth_language.h, in the benchmark's form: [CLS] A [SEP] B [SEP], lengths distributed as Wikipedia's and
// scaled, the border between A and B anywhere, 15 % of the words chosen for prediction and masked by the reference's rule. A and B are
// one sentence each; "real next" (label 0) has the same topic, "random next" (label 1) another one, so next-sentence prediction can be
// learned, too.
//
// Why learning does not rest on a plateau: the loss falls in steps that each need only what the step before found, and none needs an
// attention head that looks exactly one token back, which a small model takes thousands of steps to find (a language of word pairs, and
// one of phrases that turn without a metre, rested at accuracy 0.1 and 0.2). All words are equally frequent, so nothing is gained
// without context; the position alone gives the place in the phrase, any neighbours the topic, most neighbours a likely phrase, and the
// closer the neighbours that are heeded, the surer the phrase: accuracy rises smoothly with how local attention is.
//
// Best accuracy: the Bayes predictor of synth_optimum.h over the very evaluation samples that are written. With both neighbours seen the
// phrase is known but for a choice between two where it changes; masked neighbours and borders cost some more.

namespace flashbert {
namespace {

constexpr std::uint64_t kSynthDomain = 0xa3c5'9ac7'1f0b'6e2dULL;
constexpr std::int64_t kFrameTokens = 3;
constexpr std::int64_t kShortestSample = kFrameTokens + 2 * SynthLanguage::kShortestSentence;
constexpr std::int64_t kShortestSeqLen = 16;
constexpr double kMaskedShare = 0.15;
enum Purpose : std::uint32_t { kTrainingSamples = 1, kEvaluationSamples = 2, kTrainingLabels = 3, kEvaluationLabels = 4 };

std::int64_t most_predictions(std::int64_t seq_len) {
  return static_cast<std::int64_t>(std::nearbyint(kMaskedShare * static_cast<double>(seq_len)));
}

/// One sample under construction; the vectors are reused from sample to sample.
class SampleMaker {
 public:
  SampleMaker(const SynthOptions& options, const SynthLanguage& language) : options_(options), language_(language) {}

  /// Valid until the next call.
  SampleView make(SynthLanguage::Pool pool, RandomStream random) {
    const std::int64_t length = std::max(kShortestSample, wikipedia_length(random.unit(), options_.seq_len));
    const std::int64_t words = length - kFrameTokens;
    constexpr std::int64_t kShortest = SynthLanguage::kShortestSentence;
    const std::int64_t first_words = kShortest + random.below(words - 2 * kShortest + 1);
    const std::int64_t first_topic = random.below(language_.topics());
    const bool random_next = random.unit() < 0.5;
    const std::int64_t step = random_next ? 1 + random.below(language_.topics() - 1) : 0;
    tokens_.assign(1, SynthLanguage::kClassify);
    language_.append_sentence(first_topic, first_words, pool, random, tokens_);
    tokens_.push_back(SynthLanguage::kSeparator);
    language_.append_sentence((first_topic + step) % language_.topics(), words - first_words, pool, random, tokens_);
    tokens_.push_back(SynthLanguage::kSeparator);
    segments_.assign(static_cast<std::size_t>(length), 1);
    std::fill_n(segments_.begin(), first_words + 2, std::uint8_t{0});
    mask(masked_count(length, most_predictions(options_.seq_len)), random);
    return {.token_ids = tokens_,
            .segment_ids = segments_,
            .masked_positions = positions_,
            .masked_labels = labels_,
            .next_sentence_label = random_next ? 1 : 0};
  }

 private:
  void mask(std::int64_t count, RandomStream& random) {
    std::vector<std::int32_t>& candidates = positions_;
    candidates.clear();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i] >= SynthLanguage::kSpecialTokens) candidates.push_back(static_cast<std::int32_t>(i));
    }
    random.shuffle(candidates);
    candidates.resize(static_cast<std::size_t>(count));
    std::sort(candidates.begin(), candidates.end());
    labels_.clear();
    for (const std::int32_t position : positions_) {
      std::int32_t& token = tokens_[static_cast<std::size_t>(position)];
      labels_.push_back(token);
      const double kind = random.unit();
      if (kind < MaskingRule::kMasked) {
        token = SynthLanguage::kMask;
      } else if (kind >= MaskingRule::kMasked + MaskingRule::kKept) {
        token = static_cast<std::int32_t>(random.below(language_.vocab()));
      }
    }
  }
  const SynthOptions& options_;
  const SynthLanguage& language_;
  std::vector<std::int32_t> tokens_, positions_, labels_;
  std::vector<std::uint8_t> segments_;
};

SampleStore make_samples(const SynthOptions& options, const SynthLanguage& language, SynthLanguage::Pool pool, std::int64_t count) {
  const Purpose purpose = pool == SynthLanguage::Pool::kTraining ? kTrainingSamples : kEvaluationSamples;
  SampleMaker maker(options, language);
  SampleStore store;
  for (std::int64_t i = 0; i < count; ++i) {
    store.append(maker.make(
        pool, RandomStream({.seed = options.seed, .domain = kSynthDomain, .purpose = purpose, .index = static_cast<std::uint64_t>(i)})));
  }
  return store;
}

/// The same samples with all masked labels dealt out anew.
SampleStore with_shuffled_labels(const SampleStore& samples, std::uint64_t seed, Purpose purpose) {
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    const SampleView sample = samples[row];
    labels.insert(labels.end(), sample.masked_labels.begin(), sample.masked_labels.end());
  }
  RandomStream({.seed = seed, .domain = kSynthDomain, .purpose = purpose, .index = 0}).shuffle(labels);
  SampleStore shuffled;
  std::size_t next = 0;
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    SampleView sample = samples[row];
    sample.masked_labels = std::span<const std::int32_t>(labels).subspan(next, sample.masked_labels.size());
    next += sample.masked_labels.size();
    shuffled.append(sample);
  }
  return shuffled;
}

std::map<std::int32_t, std::int64_t> label_counts(const SampleStore& samples) {
  std::map<std::int32_t, std::int64_t> counts;
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    for (const std::int32_t label : samples[row].masked_labels) ++counts[label];
  }
  return counts;
}

std::int64_t masked_total(const SampleStore& samples) {
  std::int64_t total = 0;
  for (const auto& [label, count] : label_counts(samples)) total += count;
  return total;
}

/// Without context the best is to say always what training showed most often.
double best_without_context(const SampleStore& training, const SampleStore& evaluation) {
  const auto counts = label_counts(training);
  const auto commonest = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return static_cast<double>(label_counts(evaluation)[commonest->first]) / static_cast<double>(masked_total(evaluation));
}

double best_with_context(const SynthLanguage& language, const SampleStore& evaluation) {
  double expected = 0.0;
  std::int64_t masked = 0;
  for (std::int64_t row = 0; row < evaluation.size(); ++row) {
    const BestPrediction prediction = best_prediction(language, evaluation[row]);
    expected += prediction.expected_correct;
    masked += prediction.masked;
  }
  return expected / static_cast<double>(masked);
}

void check_options(const SynthOptions& options, const ShardFormat& format) {
  check<ConfigError>(options.samples > 0 && options.eval_samples > 0, "samples is {} and eval-samples {}; both must be at least 1",
                     options.samples, options.eval_samples);
  check<ConfigError>(options.seq_len >= kShortestSeqLen, "seq-len is {}; at least {} is needed", options.seq_len, kShortestSeqLen);
  check<ConfigError>(options.shards >= 1 && options.shards <= options.samples, "shards is {}; 1 to {} (the samples) are possible",
                     options.shards, options.samples);
  constexpr std::int64_t kMost16Bit = std::numeric_limits<std::int16_t>::max();
  if (format.layout == WrittenLayout::kFixedInt32) return;
  check<ConfigError>(options.vocab - 1 <= kMost16Bit, "vocab is {}, layout {} holds ids up to {}; choose --layout fixed-int32",
                     options.vocab, options.layout, kMost16Bit);
}

/// Shards of an earlier call that this one would not write over would become part of the set.
void refuse_foreign_shards(const std::filesystem::path& folder, WrittenLayout layout, std::int64_t shards) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    bool own = !name.starts_with("part");
    for (std::int64_t shard = 0; shard < shards && !own; ++shard) own = name == shard_name(layout, shard, shards);
    check<ConfigError>(own, "{} already holds {}, which does not belong to the set to be written; choose another --out or remove it",
                       folder.string(), name);
  }
}

}  // namespace

SynthResult synthesize(const SynthOptions& options) {
  const SynthLanguage language(options.vocab);
  const ShardFormat format{
      .layout = parse_written_layout(options.layout), .seq_len = options.seq_len, .max_predictions = most_predictions(options.seq_len)};
  check_options(options, format);
  SynthResult result{.train_path = options.out / "train", .eval_path = options.out / "eval"};
  refuse_foreign_shards(result.train_path, format.layout, options.shards);
  refuse_foreign_shards(result.eval_path, format.layout, 1);

  SampleStore training = make_samples(options, language, SynthLanguage::Pool::kTraining, options.samples);
  SampleStore evaluation = make_samples(options, language, SynthLanguage::Pool::kEvaluation, options.eval_samples);
  if (options.shuffle_labels) {
    training = with_shuffled_labels(training, options.seed, kTrainingLabels);
    evaluation = with_shuffled_labels(evaluation, options.seed, kEvaluationLabels);
    result.best_accuracy = best_without_context(training, evaluation);
  } else {
    result.best_accuracy = best_with_context(language, evaluation);
  }
  write_shards(result.train_path, training, options.shards, format);
  write_shards(result.eval_path, evaluation, 1, format);
  result.train_samples = training.size();
  result.eval_samples = evaluation.size();
  result.train_tokens = training.tokens();
  result.eval_tokens = evaluation.tokens();
  result.eval_masked = masked_total(evaluation);
  return result;
}

}  // namespace flashbert
