#include "data/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/fingerprint.h"
#include "data/shard_reader.h"
#include "data/synth_language.h"
#include "data/synth_optimum.h"
#include "data/wikipedia_lengths.h"
#include "data_support.h"

namespace flashbert {
namespace {
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TestFolder;

SynthOptions small_options(const fs::path& out) {
  return {.out = out,
          .samples = 3000,
          .eval_samples = 500,
          .vocab = 512,
          .seq_len = 64,
          .layout = "varlength",
          .shards = 3,
          .seed = 4,
          .shuffle_labels = false};
}

SampleStore read_all(const fs::path& folder, std::int64_t vocab = 512) {
  SampleStore all;
  for (const fs::path& path : list_shards(folder)) {
    const SampleStore shard = read_shard(inspect_shard(path), {.vocab = vocab, .max_positions = 64, .type_vocab = 2});
    for (std::int64_t row = 0; row < shard.size(); ++row) all.append(shard[row]);
  }
  return all;
}

/// The two sentences of a sample with the masks undone.
std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> sentences(const SampleView& sample) {
  std::vector<std::int32_t> ids = testing::to_vector(sample.token_ids);
  for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
    ids[static_cast<std::size_t>(sample.masked_positions[i])] = sample.masked_labels[i];
  }
  const auto border = std::find(ids.begin(), ids.end(), SynthLanguage::kSeparator);
  return {{ids.begin() + 1, border}, {border + 1, ids.end() - 1}};
}

std::string digest(const SampleStore& samples) {
  SampleFingerprint fingerprint;
  fingerprint.add(samples);
  return fingerprint.samples_sha256();
}

TEST(Synth, IsAPureFunctionOfTheSeed) {
  const TestFolder folder;
  SynthOptions options = small_options(folder / "a");
  synthesize(options);
  options.out = folder / "b";
  options.shards = 1;
  options.layout = "fixed-int32";
  synthesize(options);
  EXPECT_EQ(digest(read_all(folder / "a/train")), digest(read_all(folder / "b/train"))) << "shards and layout change no sample";
  options.out = folder / "c";
  options.seed = 5;
  synthesize(options);
  EXPECT_NE(digest(read_all(folder / "b/train")), digest(read_all(folder / "c/train")));
}

TEST(Synth, NamesCountsAndFilesAreAsPromised) {
  const TestFolder folder;
  const SynthResult result = synthesize(small_options(folder.path()));
  EXPECT_EQ(result.train_path, folder / "train");
  EXPECT_EQ(list_shards(result.train_path).back(), folder / "train/part_00002_of_00003.hdf5");
  EXPECT_EQ(list_shards(result.eval_path), std::vector<fs::path>{folder / "eval/part_00000_of_00001.hdf5"});
  EXPECT_EQ(read_all(result.train_path).size(), 3000);
  EXPECT_EQ(read_all(result.train_path).tokens(), result.train_tokens);
  EXPECT_EQ(read_all(result.eval_path).size(), 500);
}

TEST(Synth, EvaluationSharesNoSentenceWithTraining) {
  const TestFolder folder;
  const SynthResult result = synthesize(small_options(folder.path()));
  std::set<std::vector<std::int32_t>> trained;
  const SampleStore training = read_all(result.train_path);
  for (std::int64_t row = 0; row < training.size(); ++row) {
    const auto [a, b] = sentences(training[row]);
    trained.insert(a);
    trained.insert(b);
  }
  const SampleStore evaluation = read_all(result.eval_path);
  for (std::int64_t row = 0; row < evaluation.size(); ++row) {
    const auto [a, b] = sentences(evaluation[row]);
    EXPECT_FALSE(trained.contains(a)) << "row " << row;
    EXPECT_FALSE(trained.contains(b)) << "row " << row;
    EXPECT_EQ(SynthLanguage::pool_of(a), SynthLanguage::Pool::kEvaluation);
  }
}

TEST(Synth, SamplesFollowTheLanguage) {
  const TestFolder folder;
  const SynthLanguage language(512);
  const SampleStore samples = read_all(synthesize(small_options(folder.path())).train_path);
  double pairs = 0.0, continued = 0.0, random_next = 0.0;
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    const SampleView sample = samples[row];
    const auto [a, b] = sentences(sample);
    ASSERT_GE(a.size(), 2U);
    ASSERT_GE(b.size(), 2U);
    EXPECT_EQ(language.topic_of(a[0]) == language.topic_of(b[0]), sample.next_sentence_label == 0);
    EXPECT_EQ(static_cast<std::int64_t>(sample.masked_positions.size()),
              masked_count(static_cast<std::int64_t>(sample.token_ids.size()), 10));
    random_next += sample.next_sentence_label;
    std::int64_t position = 1;
    for (const auto& sentence : {a, b}) {
      for (std::size_t i = 0; i < sentence.size(); ++i, ++position) {
        ASSERT_EQ(language.topic_of(sentence[i]), language.topic_of(sentence[0]));
        ASSERT_EQ(SynthLanguage::place_of(sentence[i]), position % SynthLanguage::kPhraseWords);
        if (i == 0) continue;
        pairs += 1.0;
        continued += SynthLanguage::phrase_of(sentence[i - 1]) == SynthLanguage::phrase_of(sentence[i]) ? 1.0 : 0.0;
      }
      ++position;  // [SEP]
    }
  }
  // Continuation, or a jump that happens to hit the same phrase; five standard deviations of a share.
  const double share = SynthLanguage::kContinuation + (1.0 - SynthLanguage::kContinuation) / SynthLanguage::kPhrases;
  EXPECT_NEAR(continued / pairs, share, 5.0 * std::sqrt(share * (1.0 - share) / pairs));
  EXPECT_NEAR(random_next / 3000.0, 0.5, 5.0 * std::sqrt(0.25 / 3000.0));
}

TEST(Synth, MasksFollowTheReferencesShares) {
  const TestFolder folder;
  const SampleStore samples = read_all(synthesize(small_options(folder.path())).train_path);
  double total = 0.0, masked = 0.0, kept = 0.0;
  for (std::int64_t row = 0; row < samples.size(); ++row) {
    const SampleView sample = samples[row];
    for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
      const std::int32_t seen = sample.token_ids[static_cast<std::size_t>(sample.masked_positions[i])];
      total += 1.0;
      masked += seen == SynthLanguage::kMask ? 1.0 : 0.0;
      kept += seen == sample.masked_labels[i] ? 1.0 : 0.0;
    }
  }
  // A random id is [MASK] or the word itself once in 512 each; five standard deviations.
  const double chance = 0.1 / 512.0;
  EXPECT_NEAR(masked / total, 0.8 + chance, 5.0 * std::sqrt(0.16 / total));
  EXPECT_NEAR(kept / total, 0.1 + chance, 5.0 * std::sqrt(0.09 / total));
}

TEST(Synth, BestAccuracyIsTheBayesPredictorsOwnHitRate) {
  const TestFolder folder;
  SynthOptions options = small_options(folder.path());
  options.eval_samples = 2000;
  const SynthResult result = synthesize(options);
  const SynthLanguage language(options.vocab);
  const SampleStore evaluation = read_all(result.eval_path);
  double expected = 0.0, correct = 0.0, masked = 0.0;
  for (std::int64_t row = 0; row < evaluation.size(); ++row) {
    const BestPrediction best = best_prediction(language, evaluation[row]);
    expected += best.expected_correct;
    correct += static_cast<double>(best.correct);
    masked += static_cast<double>(best.masked);
  }
  EXPECT_EQ(masked, static_cast<double>(result.eval_masked));
  EXPECT_DOUBLE_EQ(expected / masked, result.best_accuracy);
  EXPECT_GT(result.best_accuracy, 0.86);
  EXPECT_LT(result.best_accuracy, 0.92);
  // A calibrated predictor hits as often as it expects to. Masks side by side share their evidence, so that hits come in runs of one or
  // two: the variance is below twice that of independent hits; five standard deviations. The division of sentences into pools, which
  // the predictor ignores, is independent of what is masked in them.
  EXPECT_NEAR(correct / masked, result.best_accuracy, 5.0 * std::sqrt(2.0 * 0.09 / masked));
}

/// A sample of one topic (0) and no noise, phrases given; -1 = masked, phrase 0 being the label.
testing::OwnedSample sample_of(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second) {
  testing::OwnedSample sample;
  const auto add = [&](std::int32_t id, int segment) {
    sample.ids.push_back(id);
    sample.segments.push_back(static_cast<std::uint8_t>(segment));
  };
  const auto add_phrases = [&](const std::vector<std::int64_t>& phrases, int segment) {
    for (const std::int64_t phrase : phrases) {
      const auto position = static_cast<std::int64_t>(sample.ids.size());
      if (phrase < 0) {
        sample.positions.push_back(static_cast<std::int32_t>(position));
        sample.labels.push_back(SynthLanguage::word(0, 0, position));
      }
      add(phrase < 0 ? std::int32_t{SynthLanguage::kMask} : SynthLanguage::word(0, phrase, position), segment);
    }
    add(SynthLanguage::kSeparator, segment);
  };
  add(SynthLanguage::kClassify, 0);
  add_phrases(first, 0);
  add_phrases(second, 1);
  return sample;
}

TEST(BestPrediction, AgreesWithBayesRuleByHand) {
  const SynthLanguage language(512);
  constexpr double kJump = (1.0 - SynthLanguage::kContinuation) / SynthLanguage::kPhrases;
  constexpr double kStay = SynthLanguage::kContinuation + kJump;
  // By hand the seen words count as certain. The predictor also allows that one of the four near words was replaced (1 of 10 words is
  // chosen, 1 of 10 of these replaced, by this word 1 time in 512) and belonged to any of the 8 phrases, which saves no change.
  constexpr double kReplacement = 4.0 * 8.0 * 0.1 * 0.1 / 512.0 / 0.9;
  const BestPrediction both = best_prediction(language, sample_of({0, 0, 0, -1, 0, 0}, {3, 3, 3, 3}).view());
  EXPECT_NEAR(both.expected_correct, kStay * kStay / (kStay * kStay + 7.0 * kJump * kJump), kReplacement);
  EXPECT_EQ(both.correct, 1);

  // The left neighbour speaks for phrase 0, the right one for phrase 2: a choice between two, any other takes two changes.
  const BestPrediction torn = best_prediction(language, sample_of({0, 0, 0, -1, 2, 2}, {3, 3, 3, 3}).view());
  EXPECT_NEAR(torn.expected_correct, kStay / (2.0 * kStay + 6.0 * kJump), kReplacement);
}

TEST(Synth, ShuffledLabelsLeaveNothingToLearn) {
  const TestFolder folder;
  SynthOptions options = small_options(folder.path());
  options.shuffle_labels = true;
  const SynthResult result = synthesize(options);
  // 448 words, equally frequent; the commonest of training is no better elsewhere: five standard deviations above.
  const double share = 1.0 / 448.0;
  EXPECT_LT(result.best_accuracy, share + 5.0 * std::sqrt(share / static_cast<double>(result.eval_masked)));
}

TEST(Synth, LengthsFollowWikipedia) {
  const TestFolder folder;
  const SampleStore samples = read_all(synthesize(small_options(folder.path())).train_path);
  // 23.4 % of Wikipedia's sequences are of full length; scaling to 64 and rounding up adds those from 505 to 511 (0.4 %).
  std::int64_t full = 0;
  for (std::int64_t row = 0; row < samples.size(); ++row) full += samples[row].token_ids.size() == 64 ? 1 : 0;
  constexpr double kShare = 0.2383;
  constexpr double kKnotError = 0.002;
  EXPECT_NEAR(static_cast<double>(full) / 3000.0, kShare, 5.0 * std::sqrt(kShare * (1.0 - kShare) / 3000.0) + kKnotError);
  EXPECT_EQ(wikipedia_length(0.0, 512), 5);
  EXPECT_EQ(wikipedia_length(0.99, 512), 512);
  // The measured median is 204; the knots are off by up to 0.2 points, a token is 0.14 points there, and lengths are rounded up.
  EXPECT_NEAR(static_cast<double>(wikipedia_length(0.5, 512)), 204.0, 0.2 / 0.14 + 1.0);
}

TEST(MaskedCount, FollowsTheReference) {
  EXPECT_EQ(masked_count(5, 76), 1);
  EXPECT_EQ(masked_count(10, 76), 2);
  EXPECT_EQ(masked_count(30, 76), 4);
  EXPECT_EQ(masked_count(50, 76), 8);
  EXPECT_EQ(masked_count(512, 76), 76);
}

TEST(Synth, RefusesOptionsThatMakeNoLanguage) {
  const TestFolder folder;
  SynthOptions options = small_options(folder.path());
  options.vocab = 60;
  EXPECT_THAT(message_of<ConfigError>([&] { synthesize(options); }), HasSubstr("vocab is 60; the synthetic language needs at least 133"));
  options = small_options(folder.path());
  options.vocab = 40000;
  EXPECT_THAT(message_of<ConfigError>([&] { synthesize(options); }), HasSubstr("choose --layout fixed-int32"));
  options = small_options(folder.path());
  options.shards = 4000;
  EXPECT_THAT(message_of<ConfigError>([&] { synthesize(options); }), HasSubstr("shards is 4000"));
  options = small_options(folder.path());
  options.eval_samples = 0;
  EXPECT_THAT(message_of<ConfigError>([&] { synthesize(options); }), HasSubstr("eval-samples 0"));
}

TEST(Synth, RefusesToMixWithShardsOfAnotherSet) {
  const TestFolder folder;
  SynthOptions options = small_options(folder.path());
  synthesize(options);
  synthesize(options);  // the same names are written anew
  options.shards = 2;
  EXPECT_THAT(message_of<ConfigError>([&] { synthesize(options); }), HasSubstr("does not belong to the set"));
}

}  // namespace
}  // namespace flashbert
