#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "train/backend.h"
#include "train/batch_split.h"
#include "train/train_settings.h"

namespace flashbert {

/// A setting that ran as something else than what was asked, since that left a choice open.
struct DecidedValue {
  std::string key;     ///< of configs/README.md, with '-'
  std::string value;   ///< as the key is written
  std::string reason;  ///< why this value, for people
};

/// The text of OUT/config.toml: every key as asked, those named here as decided, with what was asked beside them.
using ConfigText = std::function<std::string(const std::vector<DecidedValue>&)>;

/// threads, precision and device, where asked and backend differ. Ranks may have other numbers of threads than this one, which changes no
/// result; with several the reason says whose it is.
std::vector<DecidedValue> decided_backend(const TrainSettings& asked, const Backend& backend, int ranks);

/// Likewise all that a run decides: seed, micro-batch and accum besides. Given back as settings they repeat the run on as many ranks.
std::vector<DecidedValue> decided_values(const TrainSettings& asked, std::uint64_t seed, const Backend& backend, const BatchPlan& plan,
                                         int ranks);

}  // namespace flashbert
