#pragma once

#include <string>
#include <vector>

#include "report/log_reader.h"
#include "report/mlperf_rules.h"

namespace flashbert {

/// The verdict on one log. A failure names the rule, says what is wrong with its line and what to change; a warning is something that
/// the official tools pass or pass over although it is likely to be wrong.
struct LogVerdict {
  bool compliant = false;
  std::vector<LogFinding> failures, warnings;
};

/// Judges a log by a ruleset; whether it is compliant is the official checker's verdict (mlperf-logging 4.1.68), where that one crashes:
/// not compliant. At most one failure a rule, with its first line and how many lines more have it. Logs of the suite's other benchmarks are
/// not compliant, with a failure that says so.
LogVerdict judge_log(const MlperfLog& log, Ruleset ruleset);

/// What the log says of its division; kEither where it does not tell.
Division division_of(const MlperfLog& log);

}  // namespace flashbert
