#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "core/context.h"
#include "kernels/ops.h"
#include "train/train_settings.h"

namespace flashbert {

/// Device, threads and number type of a run, decided once and said in the log.
struct Setup {
  std::unique_ptr<Context> context;
  std::unique_ptr<Ops> ops;
  int threads = 0;  ///< of the host
  Dtype compute = Dtype::kF32;
  std::string note;  ///< what was chosen and why
};

/// precision bf16 computes in bf16 where the processor has products of bf16, else in f32: a choice, told in the note. Threads 0 = the
/// communicator's own_cores().
Setup make_setup(const TrainSettings& settings, const Communicator& communicator);

/// The seed given, or 63 bits of system entropy drawn by the root and shared.
std::uint64_t shared_seed(std::uint64_t given, Communicator& communicator);

}  // namespace flashbert
