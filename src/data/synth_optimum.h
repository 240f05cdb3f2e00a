#pragma once

#include <cstdint>

#include "data/sample_store.h"
#include "data/synth_language.h"

namespace flashbert {

/// What the best predictor gets at the masked positions of some samples.
struct BestPrediction {
  double expected_correct = 0.0;  ///< sum of its confidence (the largest posterior) over the masked positions
  std::int64_t correct = 0;       ///< how often its choice was the label; differs from the line above by chance only
  std::int64_t masked = 0;
};

/// The Bayes predictor of the language at the masked positions of one sample: it knows the rules, the masked text, the segment borders
/// and that the position it is asked about was chosen for prediction, not which others were. Exact inference, see synth_optimum.cpp.
BestPrediction best_prediction(const SynthLanguage& language, const SampleView& sample);

}  // namespace flashbert
