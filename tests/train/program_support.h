#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/official_checker.h"

namespace flashbert::testing {

/// A finished `flashbert train` and what it left behind.
struct TrainedRun {
  int status = -1;
  std::string output;  ///< both streams
  std::filesystem::path out;
  [[nodiscard]] nlohmann::json report() const;
  [[nodiscard]] std::vector<nlohmann::json> metrics() const;
  [[nodiscard]] std::vector<nlohmann::json> step_metrics() const;               ///< without evaluations
  [[nodiscard]] std::vector<nlohmann::json> log(const std::string& key) const;  ///< records of the MLPerf log with this key
  /// What every ending but a hard kill leaves: one run_stop, with this status.
  void expect_one_stop(const std::string& wanted) const;
};

/// One folder for all tests of this process; removed at its end.
const std::filesystem::path& work_folder();

/// Shards of `data synth` with these options, made once: <folder>/train and <folder>/eval.
std::filesystem::path synth_data(const std::string& extra = "");

/// What `data synth` said to be the best possible accuracy on the evaluation samples of synth_data(extra), to four digits.
double best_accuracy(const std::filesystem::path& data);

/// A few such shards for tests that look at anything but learning.
std::filesystem::path small_data();

/// Runs `[launcher] flashbert train --out work_folder()/name options`.
TrainedRun train(const std::string& name, const std::string& options, const std::string& launcher = "");

/// Options of a model that steps in milliseconds, on the data of small_data().
std::string small_run(const std::filesystem::path& data);

std::string demo_run(const std::filesystem::path& data);

std::string mpirun(int ranks);

}  // namespace flashbert::testing
