#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace flashbert {

struct SynthOptions {
  std::filesystem::path out;
  std::int64_t samples = 0;       ///< training samples
  std::int64_t eval_samples = 0;  ///< held out; written to OUT/eval
  std::int64_t vocab = 0;
  std::int64_t seq_len = 0;
  std::string layout;  ///< "varlength", "fixed" or "fixed-int32"
  std::int64_t shards = 1;
  std::uint64_t seed = 0;
  bool shuffle_labels = false;  ///< masked labels drawn from other samples: nothing to learn (a control)
};

struct SynthResult {
  double best_accuracy = 0.0;  ///< expected masked accuracy of the best possible predictor, over the evaluation samples
  std::int64_t train_samples = 0, eval_samples = 0, train_tokens = 0, eval_tokens = 0, eval_masked = 0;
  std::filesystem::path train_path, eval_path;
};

/// Writes shards OUT/train/part_%05d_of_%05d.hdf5 and OUT/eval/part_00000_of_00001.hdf5 of a synthetic language (docs in synth.cpp).
SynthResult synthesize(const SynthOptions& options);

}  // namespace flashbert
