#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "core/context.h"
#include "model/parameter_table.h"
#include "report/metrics_log.h"
#include "report/mlperf_run.h"
#include "train/run_inputs.h"

namespace flashbert {

/// What the MLPerf log says of a run before its clock starts.
RunDescription describe_run(const TrainSettings& settings, const RunInputs& inputs, const ParameterTable& table);

/// Versions and choices for system.json.
std::map<std::string, std::string> software(const Communicator& communicator, const Context& context);

/// What only the root writes.
struct Outputs {
  MlLog mllog;  ///< in memory until open()
  MlperfRun run{mllog};
  std::optional<MetricsLog> metrics;
  void open(const std::filesystem::path& out) {
    mllog.open(out / "mllog.txt");
    metrics.emplace(out / "metrics.jsonl");
  }
};

}  // namespace flashbert
