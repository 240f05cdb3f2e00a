#include "report/log_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "report/log_traps.h"
#include "report/log_values.h"

namespace flashbert {
namespace {

using Json = nlohmann::json;

/// One failure for each kind of fault of a rule, with its first line and the number of lines.
class Failures {
 public:
  void add(std::string_view rule, std::string_view kind, std::int64_t line, const std::string& message, std::int64_t lines = 1) {
    const auto [place, is_new] = index_.try_emplace({std::string(rule), std::string(kind)}, findings_.size());
    if (is_new) {
      findings_.push_back({{std::string(rule), message, line}, lines});
    } else {
      findings_[place->second].lines += lines;
    }
  }
  [[nodiscard]] std::vector<LogFinding> all() const {
    std::vector<LogFinding> result;
    for (const auto& [finding, lines] : findings_) {
      result.push_back(finding);
      if (lines > 1) result.back().message += fmt::format(" [and {} more]", lines - 1);
    }
    return result;
  }

 private:
  struct Counted {
    LogFinding finding;
    std::int64_t lines = 0;
  };
  std::vector<Counted> findings_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_;
};

/// What the records so far say; the order of lines in the file counts, not their times.
struct RunState {
  bool init_started = false, init_stopped = false, run_started = false;
  double first_init_start_ms = HUGE_VAL;
  std::string division;

  void take(const LogRecord& record) {
    if (record.key == "init_start") {
      init_started = true;
      first_init_start_ms = std::min(first_init_start_ms, record.time_ms);
    } else if (record.key == "init_stop") {
      init_stopped = true;
    } else if (record.key == "run_start") {
      run_started = true;
    } else if (record.key == "submission_division" && division.empty()) {
      division = record.value.is_string() && !record.value.get_ref<const std::string&>().empty() ? record.value.get<std::string>() : "?";
    }
  }
};

/// The records of one key.
struct Seen {
  std::int64_t count = 0, last_line = 0;
  const LogRecord* first = nullptr;
  bool all_same = true;
};

class Judge {
 public:
  Judge(const MlperfLog& log, Ruleset ruleset)
      : log_(log), ruleset_(ruleset), division_(division_of(log)), rules_(rules_of(ruleset, division_)) {
    for (const KeyRule& rule : rules_) by_key_[rule.key].push_back(&rule);
  }

  LogVerdict verdict() {
    if (!log_.broken.empty()) failures_.add("record", "", log_.broken[0].line, log_.broken[0].message, log_.broken_count);
    for (const LogRecord& record : log_.records) take(record);
    for (const KeyRule& rule : rules_) check_count(rule);
    for (const EitherRule& either : either_rules()) check_either(either);
    if (!key_seen("eval_accuracy")) reached_ = true;  // said already
    if (!reached_) failures_.add("eval_accuracy", "target", 0, target_message());
    if (by_key_.contains("weights_initialization") && key_seen("weights_initialization")) check_tensors();
    LogVerdict result{.compliant = false, .failures = failures_.all(), .warnings = std::move(warnings_)};
    result.compliant = result.failures.empty();
    return result;
  }

 private:
  void take(const LogRecord& record) {
    const auto rules = by_key_.find(record.key);
    if (rules == by_key_.end()) return;
    Seen& seen = seen_[record.key];
    const bool first = seen.count++ == 0;
    seen.last_line = record.line;
    if (first) seen.first = &record;
    seen.all_same = seen.all_same && same_value(seen.first->value, record.value);
    // Of the submission_* keys the official checker looks at the first record only.
    if (first || !record.key.starts_with("submission_")) {
      for (const KeyRule* rule : rules->second) check_record(*rule, record);
    }
    state_.take(record);
  }

  void fail(const KeyRule& rule, std::string_view kind, const LogRecord& record, const std::string& message) {
    failures_.add(rule.key, kind, record.line, fmt::format("{} {} ({})", rule.key, message, rule.source));
  }

  void check_record(const KeyRule& rule, const LogRecord& record) {
    check_metadata(rule, record);
    check_value(rule, record);
    check_order(rule, record);
  }

  void check_metadata(const KeyRule& rule, const LogRecord& record) {
    if (rule.metadata.empty()) return;
    if (holds_name(record.metadata, rule.metadata)) return;
    if (!rule.or_metadata.empty() && holds_name(record.metadata, rule.or_metadata)) return;
    fail(rule, rule.metadata, record,
         rule.or_metadata.empty() ? fmt::format("has no {} in its metadata; write it there", rule.metadata)
                                  : fmt::format("has neither {} nor {} in its metadata; write one there", rule.metadata, rule.or_metadata));
  }

  void check_value(const KeyRule& rule, const LogRecord& record) {
    const std::string value = text_of(record.value);
    const auto want = [&](bool good, const std::string& wanted) {
      if (!good) fail(rule, "value", record, fmt::format("is {}, {}", shown(record.value), wanted));
    };
    switch (rule.condition) {
      case Condition::kNotEmpty:
        return want(!record.value.is_string() || !value.empty(), "which says nothing; write who or how many");
      case Condition::kDivision:
        return want(value == "closed" || value == "open", "write closed or open");
      case Condition::kStatus:
        return want(value == "cloud" || value == "onprem" || value == "preview" || value == "research",
                    "write cloud, onprem, preview or research");
      case Condition::kBenchmark:
        return want(value == "bert", "this judge knows bert");
      case Condition::kPositive:
        return want(number_of(record.value).value_or(0.0) > 0.0, "a number above 0 is wanted");
      case Condition::kAccuracy:
        return check_accuracy(rule, record);
      case Condition::kTensor:
        return take_tensor(record);
      default:
        return;
    }
  }

  void check_accuracy(const KeyRule& rule, const LogRecord& record) {
    const auto value = number_of(record.value);
    if (!value) {
      return fail(rule, "value", record,
                  fmt::format("is {}, no number; the official checker crashes on it: write a JSON number", shown(record.value)));
    }
    const AccuracyLimits limits = accuracy_limits(division_);
    if (*value < limits.below && (!limits.least || *value >= *limits.least)) reached_ = true;
    if (*value < limits.below) best_ = std::max(best_, *value);
  }

  void take_tensor(const LogRecord& record) {
    const bool named = record.metadata.is_object() && record.metadata.contains("tensor") && record.metadata["tensor"].is_string();
    tensors_.push_back(named ? record.metadata["tensor"].get<std::string>() : std::string());
  }

  void check_order(const KeyRule& rule, const LogRecord& record) {
    const auto want = [&](bool good, std::string_view kind, const std::string& message) {
      if (!good) fail(rule, kind, record, message);
    };
    switch (rule.condition) {
      case Condition::kBeforeClock:
        return want(!state_.init_stopped && !state_.run_started, "order",
                    "stands after init_stop or run_start; initialise before the clock starts, and keep one run in a file");
      case Condition::kInitialisation:
        want(state_.init_started, "order", "stands before any init_start; write init_start first");
        want(!state_.run_started, "after run_start", "stands after run_start; stop initialisation before the clock starts");
        return check_initialisation_time(rule, record);
      case Condition::kAfterInitStop:
        return want(state_.init_stopped, "order", "stands before init_stop; write init_stop first");
      case Condition::kAfterRunStart:
        return want(state_.run_started, "order", "stands before run_start; write run_start first");
      case Condition::kBlockLength:
        want(state_.run_started, "order", "stands before run_start; start blocks inside the run");
        return check_block_length(rule, record);
      default:
        return;
    }
  }

  void check_initialisation_time(const KeyRule& rule, const LogRecord& record) {
    constexpr double kMinuteMs = 60'000.0;
    if (!state_.init_started) return;
    const double allowed = initialisation_minutes(ruleset_, state_.division);
    const double minutes = (record.time_ms - state_.first_init_start_ms) / kMinuteMs;
    if (record.time_ms - state_.first_init_start_ms < allowed * kMinuteMs) return;
    if (allowed == 0.0) {
      return fail(rule, "division", record, "stands before submission_division, which says how long it may take; write the division first");
    }
    fail(rule, "time", record,
         fmt::format(
             "comes {:.3f} min after the first init_start, {:.0f} min are too many already; what takes longer belongs into the timed "
             "run",
             minutes, allowed));
  }

  void check_block_length(const KeyRule& rule, const LogRecord& record) {
    const Json& metadata = record.metadata;
    if (holds_name(metadata, "epoch_count")) {
      if (!(number_at(metadata, "epoch_count").value_or(0.0) > 0.0)) fail(rule, "length", record, "has an epoch_count that is not above 0");
      if (!holds_name(metadata, "first_epoch_num")) fail(rule, "first", record, "has an epoch_count and no first_epoch_num; write both");
    }
    const std::string_view other = rule.or_metadata;
    if (!other.empty() && holds_name(metadata, other) && !(number_at(metadata, other).value_or(-1.0) >= 0.0)) {
      fail(rule, "length", record, fmt::format("has a {} that is no number from 0 on", other));
    }
  }

  void check_count(const KeyRule& rule) {
    const Seen seen = seen_[rule.key];
    if (rule.count == Count::kAny || (rule.count == Count::kAtLeastOnce && seen.count > 0) || seen.count == 1) return;
    if (seen.count == 0) {
      failures_.add(rule.key, "count", 0,
                    fmt::format("there is no {}; ruleset {} wants it {}: write it ({})", rule.key, name_of_ruleset(ruleset_),
                                rule.count == Count::kOnce ? "once" : "at least once", rule.source));
    } else if (seen.all_same) {
      warnings_.push_back(
          {std::string(rule.key),
           fmt::format("{} stands {} times with one value; the checker only warns of it: write it once", rule.key, seen.count),
           seen.last_line});
    } else {
      failures_.add(rule.key, "count", seen.last_line,
                    fmt::format("{} stands {} times with different values; write it once ({})", rule.key, seen.count, rule.source));
    }
  }

  void check_either(const EitherRule& either) {
    if (key_seen(either.key) || key_seen(either.other)) return;
    failures_.add(either.key, either.other, 0,
                  fmt::format("there is neither {} nor {}; write at least one of them ({})", either.key, either.other, "LC common"));
  }

  void check_tensors() {
    std::sort(tensors_.begin(), tensors_.end());
    const auto& wanted = reference_tensor_names();
    if (tensors_ == wanted) return;
    std::vector<std::string> missing, surplus;
    std::set_difference(wanted.begin(), wanted.end(), tensors_.begin(), tensors_.end(), std::back_inserter(missing));
    std::set_difference(tensors_.begin(), tensors_.end(), wanted.begin(), wanted.end(), std::back_inserter(surplus));
    failures_.add(
        "weights_initialization", "names", 0,
        fmt::format("weights_initialization stands {} times; each of the reference's {} tensors once is wanted{}{}", tensors_.size(),
                    wanted.size(), missing.empty() ? "" : fmt::format("; {} missing: {}", missing.size(), missing.front()),
                    surplus.empty() ? "" : fmt::format("; {} too many: '{}'", surplus.size(), surplus.front())));
  }

  [[nodiscard]] std::string target_message() const {
    const AccuracyLimits limits = accuracy_limits(division_);
    const std::string best = best_ >= 0.0 ? fmt::format("the best is {:.6g}", best_) : "there is none";
    if (!limits.least) return fmt::format("no eval_accuracy is below {:.1f}; {}", limits.below, best);
    return fmt::format("no eval_accuracy is at least {:.3f} and below {:.1f}; {}: train longer, or check data and start weights ({})",
                       *limits.least, limits.below, best, "TR quality target, BERT");
  }

  [[nodiscard]] bool key_seen(std::string_view key) const {
    const auto found = seen_.find(key);
    return found != seen_.end() && found->second.count > 0;
  }

  const MlperfLog& log_;
  Ruleset ruleset_;
  Division division_;
  std::vector<KeyRule> rules_;
  std::map<std::string_view, std::vector<const KeyRule*>> by_key_;
  std::map<std::string_view, Seen> seen_;
  RunState state_;
  Failures failures_;
  std::vector<LogFinding> warnings_;
  std::vector<std::string> tensors_;
  bool reached_ = false;
  double best_ = -1.0;
};

const LogRecord* first_of(const MlperfLog& log, std::string_view key) {
  const auto found = std::find_if(log.records.begin(), log.records.end(), [&](const LogRecord& record) { return record.key == key; });
  return found == log.records.end() ? nullptr : &*found;
}

}  // namespace

Division division_of(const MlperfLog& log) {
  const LogRecord* const record = first_of(log, "submission_division");
  if (record == nullptr) return Division::kEither;
  const std::string text = text_of(record->value);
  return text == "closed" ? Division::kClosed : text == "open" ? Division::kOpen : Division::kEither;
}

LogVerdict judge_log(const MlperfLog& log, Ruleset ruleset) {
  if (log.record_count == 0) {
    return {.compliant = false,
            .failures = {{"log", "there is no MLPerf record (':::MLLOG {...}') in the file; is it a log, and was it written to?", 0}},
            .warnings = log.invisible};
  }
  const LogRecord* const benchmark = first_of(log, "submission_benchmark");
  if (benchmark != nullptr && is_other_benchmark(text_of(benchmark->value))) {
    return {.compliant = false,
            .failures = {{"submission_benchmark",
                          fmt::format("this is a log of {}; only bert is judged here: use MLCommons' own checker for it",
                                      text_of(benchmark->value)),
                          benchmark->line}},
            .warnings = {}};
  }
  LogVerdict verdict = Judge(log, ruleset).verdict();
  for (LogFinding& trap : find_traps(log)) verdict.warnings.push_back(std::move(trap));
  return verdict;
}

}  // namespace flashbert
