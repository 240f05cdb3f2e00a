#pragma once

#include <map>
#include <string>

#include "comm/ranks.h"
#include "core/context.h"
#include "model/parameter_table.h"
#include "report/mlperf_run.h"
#include "train/run_inputs.h"

namespace flashbert {

/// What the MLPerf log says of a run before its clock starts.
RunDescription describe_run(const TrainSettings& settings, const RunInputs& inputs, const ParameterTable& table);

/// Versions and choices for system.json.
std::map<std::string, std::string> software(const Ranks& ranks, const Context& context);

}  // namespace flashbert
