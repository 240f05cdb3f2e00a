#pragma once

#include <vector>

#include "report/log_reader.h"

namespace flashbert {

/// What the official tools pass, pass over or misread although it is likely to cost the submission something: lines that no tool sees,
/// several runs in a file, evaluations after the end, words that the reader of convergence points takes for another record, missing seeds,
/// evaluations too far apart. None of it changes the verdict on a log.
std::vector<LogFinding> find_traps(const MlperfLog& log);

}  // namespace flashbert
