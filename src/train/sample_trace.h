#pragma once

#include <filesystem>
#include <fstream>

#include "comm/ranks.h"
#include "data/loader.h"

namespace flashbert {

/// The file of --trace-samples: "step slot rank shard row" for every sample that a step computes, in the order of the slots.
class SampleTrace {
 public:
  /// The root makes the file. Throws EnvironmentError where it cannot. The data set must live as long.
  SampleTrace(const std::filesystem::path& path, const DataSet& data, Ranks& ranks);
  /// One line a sample; the root writes those of all ranks. Collective. Throws EnvironmentError when the file cannot take them.
  void write(const StepBatch& batch);

 private:
  std::filesystem::path path_;
  const DataSet& data_;
  Ranks& ranks_;
  std::ofstream file_;
};

}  // namespace flashbert
