#pragma once

#include <memory>
#include <string>

#include "comm/ranks.h"
#include "core/context.h"
#include "kernels/ops.h"
#include "train/train_settings.h"

namespace flashbert {

/// What a run computes with: device, operations, threads and number type, decided once and told in the log.
struct Backend {
  std::unique_ptr<Context> context;
  std::unique_ptr<Ops> ops;
  int threads = 0;  ///< of the host
  Dtype compute = Dtype::kF32;
  std::string note;  ///< what was chosen and why
};

/// precision bf16 computes in bf16 where the processor has products of bf16, else in f32: a choice, told in the note. Threads 0 =
/// this rank's own_cores(). Throws ConfigError (device, threads) and EnvironmentError (the device is not there).
Backend make_backend(const TrainSettings& settings, const Ranks& ranks);

}  // namespace flashbert
