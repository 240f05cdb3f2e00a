#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "report/log_reader.h"

namespace flashbert {

/// What stands behind the mark of a record, read as the official parser reads it: Latin-1 where it is no UTF-8, NaN and Infinity for
/// numbers, the time as a number or as text. `error` says in words why a record cannot be read; empty where it can.
struct ParsedRecord {  // NOLINT(bugprone-exception-escape): as LogRecord
  LogRecord record;
  std::string error;
};
ParsedRecord parse_record(std::string_view text);

/// Which words of Mentions a record's text holds.
Mentions mentions_of(std::string_view text);

}  // namespace flashbert
