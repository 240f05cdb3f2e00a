#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/packed_batch.h"
#include "reference_bert.h"
#include "support/random_values.h"
#include "train/backend.h"
#include "train/engine.h"

namespace flashbert::testing {

/// Sizes that all differ, so that none can stand for another; rates that differ too.
inline constexpr ReferenceShape kShape = {.layers = 3,
                                          .hidden = 40,
                                          .heads = 5,
                                          .intermediate = 56,
                                          .vocab = 83,
                                          .positions = 37,
                                          .segments = 2,
                                          .hidden_dropout = 0.15F,
                                          .attention_dropout = 0.3F};

inline BertConfig config_of(const ReferenceShape& shape) {
  return {.layers = static_cast<std::int64_t>(shape.layers),
          .hidden = static_cast<std::int64_t>(shape.hidden),
          .heads = static_cast<std::int64_t>(shape.heads),
          .intermediate = static_cast<std::int64_t>(shape.intermediate),
          .vocab = static_cast<std::int64_t>(shape.vocab),
          .max_positions = static_cast<std::int64_t>(shape.positions),
          .type_vocab = static_cast<std::int64_t>(shape.segments),
          .hidden_dropout = shape.hidden_dropout,
          .attention_dropout = shape.attention_dropout};
}

/// A sample that owns what a SampleView points to.
struct OwnedSample {
  std::vector<std::int32_t> tokens, masked_positions, masked_labels;
  std::vector<std::uint8_t> segments;
  std::int32_t next_sentence = 0;
  std::uint64_t index = 0;  ///< running sample index: the dropout counter
  [[nodiscard]] SampleView view() const { return {tokens, segments, masked_positions, masked_labels, next_sentence}; }
};

/// Random samples of these lengths; about every fifth token is masked, none in a sample of one token.
inline std::vector<OwnedSample> random_samples(const std::vector<std::size_t>& lengths, std::uint64_t seed, std::uint64_t first_index) {
  RandomValues random(seed);
  std::vector<OwnedSample> samples;
  for (const std::size_t length : lengths) {
    OwnedSample sample;
    for (std::size_t i = 0; i < length; ++i) {
      sample.tokens.push_back(random.below(static_cast<std::int32_t>(kShape.vocab)));
      sample.segments.push_back(i > length / 2 ? 1 : 0);
      if (i % 5 != 2) continue;
      sample.masked_positions.push_back(static_cast<std::int32_t>(i));
      sample.masked_labels.push_back(random.below(static_cast<std::int32_t>(kShape.vocab)));
    }
    sample.next_sentence = random.below(2);
    sample.index = first_index + samples.size();
    samples.push_back(std::move(sample));
  }
  return samples;
}

inline std::int64_t masked_of(const std::vector<OwnedSample>& samples) {
  std::int64_t masked = 0;
  for (const OwnedSample& sample : samples) masked += static_cast<std::int64_t>(sample.masked_labels.size());
  return masked;
}

inline ReferenceBatch reference_batch(const std::vector<OwnedSample>& samples) {
  ReferenceBatch batch;
  for (const OwnedSample& sample : samples) {
    const auto first = static_cast<std::int32_t>(batch.tokens.size());
    for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
      batch.tokens.push_back(sample.tokens[i]);
      batch.segments.push_back(sample.segments[i]);
      batch.positions.push_back(static_cast<std::int32_t>(i));
      batch.sequences.push_back(static_cast<std::int32_t>(batch.sample_indices.size()));
    }
    for (std::size_t i = 0; i < sample.masked_positions.size(); ++i) {
      batch.masked_rows.push_back(first + sample.masked_positions[i]);
      batch.masked_labels.push_back(sample.masked_labels[i]);
    }
    batch.next_sentence_labels.push_back(sample.next_sentence);
    batch.sample_indices.push_back(sample.index);
    batch.cu_tokens.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  }
  return batch;
}

/// Gives two of three masked positions the label that these weights guess without dropout, so that there is something to count.
inline void label_with_guesses(std::vector<OwnedSample>& samples, const NamedValues& weights) {
  const ReferenceLoss loss = ReferenceBert(kShape, weights).run(reference_batch(samples), {.training = false});
  std::size_t row = 0;
  for (OwnedSample& sample : samples) {
    for (std::int32_t& label : sample.masked_labels) {
      if (row % 3 != 0) label = loss.guesses[row];
      ++row;
    }
  }
}

/// Weights that matter all: biases are not 0 and scales not 1.
inline NamedValues random_weights(const ParameterTable& table, std::uint64_t seed) {
  RandomValues random(seed);
  NamedValues weights;
  for (const ParameterInfo& info : table.parameters()) {
    Values values =
        random.values(info.shape.elements(), Dtype::kF32, info.name.find("embeddings.weight") != std::string::npos ? 0.5 : 0.25);
    if (info.name.ends_with("LayerNorm.weight")) {
      for (double& value : values) value = rounded(1.0 + value, Dtype::kF32);
    }
    weights[info.name] = std::move(values);
  }
  return weights;
}

/// The model under test with given weights.
class ModelFixture {
 public:
  struct Options {
    ReferenceShape shape = kShape;
    std::size_t global_batch = 0, micro_batch = 0;
    std::uint64_t seed = 0;
    Precision precision = Precision::kF32;
    OptimizerSettings optimizer = {};
    ClipOrder clip = ClipOrder::kAfterReduce;
    LossNormalisation normalisation = LossNormalisation::kGlobal;
  };
  explicit ModelFixture(const Options& o) : ModelFixture(o, make_self_ranks(), make_self_collectives()) {}
  /// One of several ranks.
  ModelFixture(const Options& o, Peers peers) : options_(o) { build(peers); }

  void set(const NamedValues& weights) {
    Parameters& parameters = engine_->model().parameters();
    for (std::size_t i = 0; i < table().parameters().size(); ++i) {
      const Tensor master = parameters.parameter_master(i);
      std::copy(weights.at(table().parameters()[i].name).begin(), weights.at(table().parameters()[i].name).end(), master.data<float>());
    }
    parameters.refresh(*backend_.ops);
  }

  /// These samples, of a global batch with so many masked positions, in micro-batches.
  StepResult step(const std::vector<OwnedSample>& samples, std::int64_t global_masked, std::int64_t number = 0) {
    StepBatch batch;
    batch.step = number;
    batch.global_masked = global_masked;
    batch.micro_batches = packed(samples);
    return engine_->train_step(batch);
  }
  EvaluationResult evaluate(const std::vector<OwnedSample>& samples) { return engine_->evaluate(packed(samples)); }

  [[nodiscard]] Values gradient(std::size_t index) const {
    const Tensor gradient = engine_->model().parameters().parameter_gradient(index);
    return {gradient.data<float>(), gradient.data<float>() + gradient.elements()};
  }
  [[nodiscard]] Values master(std::size_t index) const {
    const Tensor master = engine_->model().parameters().parameter_master(index);
    return {master.data<float>(), master.data<float>() + master.elements()};
  }
  [[nodiscard]] Ops& ops() { return *backend_.ops; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const ParameterTable& table() const { return engine_->model().parameters().table(); }
  [[nodiscard]] Dtype compute() const { return backend_.compute; }

 private:
  ModelFixture(const Options& o, std::unique_ptr<Ranks> ranks, std::unique_ptr<Collectives> collectives)
      : options_(o), own_ranks_(std::move(ranks)), own_collectives_(std::move(collectives)) {
    build({.ranks = *own_ranks_, .collectives = *own_collectives_});
  }
  void build(Peers peers) {
    const Options& o = options_;
    TrainSettings settings;
    settings.precision = o.precision;
    settings.threads = peers.ranks.size() > 1 ? 1 : 2;
    backend_ = make_backend(settings, peers.ranks);
    const auto micro = static_cast<std::int64_t>(o.micro_batch);
    const auto seq_len = static_cast<std::int64_t>(o.shape.positions);
    engine_ = std::make_unique<Engine>(
        EngineOptions{.model = config_of(o.shape),
                      .optimizer = o.optimizer,
                      .compute = backend_.compute,
                      .capacity = {.sequences = micro, .tokens = micro * seq_len, .masked = micro * 8, .seq_len = seq_len},
                      .global_batch = static_cast<std::int64_t>(o.global_batch),
                      .accumulation = static_cast<std::int64_t>(o.global_batch) / peers.ranks.size() / micro,
                      .clip = o.clip,
                      .loss_normalisation = o.normalisation,
                      .seed = o.seed},
        *backend_.ops, peers);
  }
  [[nodiscard]] std::vector<PackedBatch> packed(const std::vector<OwnedSample>& samples) const {
    std::vector<PackedBatch> batches;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (i % options_.micro_batch == 0) batches.emplace_back().clear();
      batches.back().append(samples[i].view(), samples[i].index);
    }
    for (PackedBatch& batch : batches) batch.finish();
    return batches;
  }

  Options options_;
  std::unique_ptr<Ranks> own_ranks_;  ///< where the model is alone
  std::unique_ptr<Collectives> own_collectives_;
  Backend backend_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace flashbert::testing
