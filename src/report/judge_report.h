#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/set_score.h"

namespace flashbert {

/// What `flashbert report` tells: {"logs": [...], "sets": [...]}, null where a log does not tell. docs/metrics.md has every figure.
struct JudgedLogs {
  std::vector<JudgedRun> runs;
  std::vector<SetScore> sets;
};
nlohmann::ordered_json judged_json(const JudgedLogs& judged, Ruleset ruleset);

/// The same for people. A log alone is shown with its accuracy curve: as a picture, or as a table of numbers.
enum class CurveAs { kPicture, kTable };
std::string judged_text(const JudgedLogs& judged, Ruleset ruleset, CurveAs curve);

/// Whether all logs are compliant and no set fails.
bool all_good(const JudgedLogs& judged);

/// What a ruleset asks for: records, evaluation points and reference points; of one batch, or where that is 0 of all reference points.
nlohmann::ordered_json rules_json(Ruleset ruleset, std::int64_t global_batch);
std::string rules_text(Ruleset ruleset, std::int64_t global_batch);

}  // namespace flashbert
