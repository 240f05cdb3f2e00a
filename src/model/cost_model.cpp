#include "model/cost_model.h"

namespace flashbert {
namespace {

struct Sizes {
  explicit Sizes(const BertConfig& config)
      : layers(static_cast<double>(config.layers)),
        hidden(static_cast<double>(config.hidden)),
        intermediate(static_cast<double>(config.intermediate)),
        vocab(static_cast<double>(config.vocab)),
        padded_vocab(static_cast<double>(config.padded_vocab())) {}
  double layers, hidden, intermediate, vocab, padded_vocab;
};

double heads_forward(const Sizes& s, const BatchCounts& counts, double vocab) {
  return 2.0 * counts.masked * (s.hidden * s.hidden + s.hidden * vocab) + 2.0 * counts.sequences * (s.hidden * s.hidden + 2.0 * s.hidden);
}

}  // namespace

double training_flops(const BertConfig& config, const BatchCounts& counts) {
  const Sizes s(config);
  const double linears = 2.0 * counts.tokens * s.layers * (4.0 * s.hidden * s.hidden + 2.0 * s.hidden * s.intermediate);
  const double attention = 4.0 * s.layers * s.hidden * counts.squared_lengths;
  return 3.0 * (linears + attention + heads_forward(s, counts, s.vocab));
}

double executed_training_flops(const BertConfig& config, const BatchCounts& counts) {
  const Sizes s(config);
  const double per_token = 4.0 * s.hidden * s.hidden + 2.0 * s.hidden * s.intermediate;
  const double key_value = 2.0 * s.hidden * s.hidden;
  const double head_rows = counts.masked + counts.sequences;
  const double linears =
      2.0 * (counts.tokens * (s.layers - 1.0) * per_token + counts.tokens * key_value + head_rows * (per_token - key_value));
  const double attention = 4.0 * s.hidden * ((s.layers - 1.0) * counts.squared_lengths + counts.head_row_lengths);
  return 3.0 * (linears + heads_forward(s, counts, s.padded_vocab)) + 3.5 * attention;
}

}  // namespace flashbert
