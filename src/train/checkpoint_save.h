#pragma once

#include <cstdint>
#include <filesystem>

#include "model/parameters.h"

namespace flashbert {

/// Where a run stands, as state.json tells it.
struct CheckpointState {
  std::int64_t step = 0;  ///< updates done
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
};

struct SaveOptions {
  std::filesystem::path out;  ///< the results folder
  CheckpointState state;
  BertConfig model;
  std::int64_t keep = 2;  ///< saves; at least one is kept
};
/// One save under OUT/checkpoints: step-%08d/{model.safetensors, config.json, state.json}, the file `latest`, and only the newest `keep`
/// saves left. The folder appears under its final name when it is whole. Throws EnvironmentError with step, folder and cause; then nothing
/// is left of the save.
void save_checkpoint(const SaveOptions& options, const Parameters& parameters, Ops& ops);

}  // namespace flashbert
