#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flashbert {

/// The rulesets that have BERT, by their place in ruleset_names().
using Ruleset = int;
std::span<const std::string_view> ruleset_names();
/// Throws ConfigError naming the rulesets there are.
Ruleset parse_ruleset(std::string_view option, std::string_view name);
std::string_view name_of_ruleset(Ruleset ruleset);

/// Rulesets from the first to the last one.
struct RulesetSpan {
  std::string_view first = "1.0.0", last = "5.0.0";
  [[nodiscard]] bool holds(Ruleset ruleset) const;
};

enum class Division { kEither, kClosed, kOpen };

/// How often a key's record stands in a log. One that must stand once may be repeated with the same value.
enum class Count { kAny, kAtLeastOnce, kOnce };

/// What must hold for each record of a key, besides its metadata.
enum class Condition {
  kNone,
  kNotEmpty,        ///< value is not ""
  kDivision,        ///< value is closed or open
  kStatus,          ///< value is cloud, onprem, preview or research
  kBenchmark,       ///< value is bert
  kBeforeClock,     ///< stands before init_stop and run_start
  kInitialisation,  ///< after init_start, before run_start, within the time that the division has
  kAfterInitStop,
  kAfterRunStart,
  kPositive,     ///< value is a number above 0
  kAccuracy,     ///< value is a number
  kBlockLength,  ///< after run_start; epoch_count > 0, step_num >= 0 or samples_count >= 0, whichever is there
  kTensor,       ///< all records together name each of the reference's tensors once
};

/// One row of the rules: what a log must hold of one key.
struct KeyRule {
  std::string_view key;
  Count count = Count::kAny;
  Condition condition = Condition::kNone;
  std::string_view metadata = {};     ///< a name that metadata must hold
  std::string_view or_metadata = {};  ///< or this one instead
  Division division = Division::kEither;
  RulesetSpan rulesets = {};
  std::string_view source = {};  ///< where the rule stands
};
std::span<const KeyRule> key_rules();

/// At least one record of one of two keys.
struct EitherRule {
  std::string_view key, other;
};
std::span<const EitherRule> either_rules();

/// The rules that hold in a division of a ruleset.
std::vector<KeyRule> rules_of(Ruleset ruleset, Division division);

/// Whether any rule or figure reads records of this key.
bool is_judged_key(std::string_view key);

/// The least masked-LM accuracy that some evaluation reaches, and the value it stays below; absent = no lower limit.
struct AccuracyLimits {
  std::optional<double> least;
  double below = 1.0;
};
AccuracyLimits accuracy_limits(Division division);
inline constexpr double kTargetAccuracy = 0.720;

/// Minutes that initialisation must stay below. Since 2.0.0 the open division has more; `division` is what the log has said so far.
double initialisation_minutes(Ruleset ruleset, std::string_view division);

/// The 398 variables of BERT-large, sorted: those whose records 1.1.0 to 2.1.0 ask for.
const std::vector<std::string>& reference_tensor_names();

/// Names of the suite's other benchmarks in any of the rulesets.
bool is_other_benchmark(std::string_view name);

}  // namespace flashbert
