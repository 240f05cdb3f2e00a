#include "report/mlperf_rules.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace flashbert {
namespace {

constexpr std::string_view kRulesets[] = {"1.0.0", "1.1.0", "2.0.0", "2.1.0", "3.0.0", "3.1.0", "4.0.0", "4.1.0", "5.0.0"};

// Sources: TR = MLCommons training rules (training_policies, training_rules.adoc) of the round; LC = rules of the log checker in
// mlcommons/logging for that ruleset.
constexpr std::string_view kSubmissionInfo = "LC common: submission info";
constexpr std::string_view kTiming = "TR 'Timing and results'; LC common: initialisation and run";
constexpr std::string_view kProgress = "LC common: blocks, epochs and evaluations";
constexpr std::string_view kSamples = "LC common: sample counts";
constexpr std::string_view kHyperparameters = "TR table of hyperparameters, BERT; LC closed bert";
constexpr std::string_view kQuality = "TR quality target, BERT: 0.720 masked-LM accuracy; LC bert";
constexpr std::string_view kWeights = "LC closed bert, 1.1.0 to 2.1.0: weight initialisation";

constexpr RulesetSpan kTo30{"1.0.0", "3.0.0"}, kIn31{"3.1.0", "3.1.0"}, kFrom40{"4.0.0", "5.0.0"}, kTo41{"1.0.0", "4.1.0"},
    kIn50{"5.0.0", "5.0.0"};

constexpr KeyRule hyperparameter(std::string_view key, RulesetSpan rulesets = {}) {
  return {.key = key, .count = Count::kOnce, .division = Division::kClosed, .rulesets = rulesets, .source = kHyperparameters};
}

constexpr KeyRule progress(std::string_view key, std::string_view metadata, std::string_view or_metadata, RulesetSpan rulesets,
                           Condition condition = Condition::kNone) {
  return {.key = key, .condition = condition, .metadata = metadata, .or_metadata = or_metadata, .rulesets = rulesets, .source = kProgress};
}

constexpr KeyRule kKeyRules[] = {
    {.key = "submission_benchmark", .count = Count::kOnce, .condition = Condition::kBenchmark, .source = kSubmissionInfo},
    {.key = "submission_division", .count = Count::kOnce, .condition = Condition::kDivision, .source = kSubmissionInfo},
    {.key = "submission_org", .count = Count::kOnce, .condition = Condition::kNotEmpty, .rulesets = kTo41, .source = kSubmissionInfo},
    {.key = "submission_platform", .count = Count::kOnce, .condition = Condition::kNotEmpty, .rulesets = kTo41, .source = kSubmissionInfo},
    {.key = "submission_status",
     .count = Count::kOnce,
     .condition = Condition::kStatus,
     .rulesets = {"1.0.0", "4.0.0"},
     .source = kSubmissionInfo},
    {.key = "cache_clear", .count = Count::kAtLeastOnce, .source = "TR 'Data set': caches are flushed; LC common"},
    {.key = "init_start", .count = Count::kAtLeastOnce, .condition = Condition::kBeforeClock, .source = kTiming},
    {.key = "init_stop", .count = Count::kOnce, .condition = Condition::kInitialisation, .source = kTiming},
    {.key = "run_start", .count = Count::kOnce, .condition = Condition::kAfterInitStop, .source = kTiming},
    {.key = "run_stop", .count = Count::kOnce, .condition = Condition::kAfterRunStart, .metadata = "status", .source = kTiming},
    progress("block_start", "epoch_count", "", kTo30, Condition::kBlockLength),
    progress("block_start", "first_epoch_num", "", kTo30),
    progress("block_start", "epoch_count", "step_num", kIn31, Condition::kBlockLength),
    progress("block_start", "epoch_count", "samples_count", kFrom40, Condition::kBlockLength),
    progress("block_stop", "first_epoch_num", "", kTo30),
    progress("block_stop", "first_epoch_num", "step_num", kIn31),
    progress("block_stop", "first_epoch_num", "samples_count", kFrom40),
    progress("epoch_start", "epoch_num", "", kTo41),
    progress("epoch_start", "epoch_num", "samples_count", kIn50),
    progress("epoch_stop", "epoch_num", "", kTo41),
    progress("epoch_stop", "epoch_num", "samples_count", kIn50),
    progress("eval_start", "epoch_num", "", kTo30),
    progress("eval_start", "epoch_num", "step_num", kIn31),
    progress("eval_start", "epoch_num", "samples_count", kFrom40),
    progress("eval_stop", "epoch_num", "", kTo30),
    progress("eval_stop", "epoch_num", "step_num", kIn31),
    progress("eval_stop", "epoch_num", "samples_count", kFrom40),
    {.key = "eval_accuracy", .count = Count::kAtLeastOnce, .condition = Condition::kAccuracy, .metadata = "epoch_num", .source = kQuality},
    {.key = "train_samples", .count = Count::kOnce, .condition = Condition::kNotEmpty, .source = kSamples},
    {.key = "eval_samples", .count = Count::kOnce, .condition = Condition::kNotEmpty, .source = kSamples},
    {.key = "gradient_accumulation_steps",
     .count = Count::kOnce,
     .condition = Condition::kPositive,
     .division = Division::kClosed,
     .source = "LC closed common"},
    hyperparameter("global_batch_size"),
    hyperparameter("opt_base_learning_rate"),
    hyperparameter("opt_epsilon", {"1.0.0", "2.0.0"}),
    hyperparameter("opt_lamb_epsilon", {"2.1.0", "5.0.0"}),
    hyperparameter("opt_learning_rate_training_steps"),
    hyperparameter("opt_learning_rate_warmup_steps"),
    hyperparameter("num_warmup_steps"),
    hyperparameter("start_warmup_step"),
    hyperparameter("opt_lamb_beta_1"),
    hyperparameter("opt_lamb_beta_2"),
    hyperparameter("opt_lamb_weight_decay_rate"),
    {.key = "weights_initialization",
     .count = Count::kAtLeastOnce,
     .condition = Condition::kTensor,
     .metadata = "tensor",
     .division = Division::kClosed,
     .rulesets = {"1.1.0", "2.1.0"},
     .source = kWeights},
};

constexpr EitherRule kEitherRules[] = {
    {"block_start", "epoch_start"}, {"block_stop", "epoch_stop"}, {"block_start", "eval_start"}, {"block_stop", "eval_stop"}};

constexpr std::string_view kOtherBenchmarks[] = {"resnet",    "ssd",  "maskrcnn",    "minigo",           "dlrm", "rnnt",
                                                 "unet3d",    "gpt3", "dlrm_dcnv2",  "stable_diffusion", "gnn",  "llama2_70b_lora",
                                                 "retinanet", "rgat", "llama31_405b"};

void add_names(std::vector<std::string>& names, const std::string& prefix, std::initializer_list<const char*> endings) {
  for (const char* const ending : endings) names.push_back(prefix + ending);
}

std::vector<std::string> sorted_tensor_names() {
  constexpr int kLayers = 24;
  std::vector<std::string> names;
  add_names(names, "bert/embeddings/",
            {"word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm/gamma", "LayerNorm/beta"});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("bert/encoder/layer_{}/", layer);
    for (const char* const matrix : {"attention/self/query/", "attention/self/key/", "attention/self/value/", "attention/output/dense/",
                                     "intermediate/dense/", "output/dense/"}) {
      add_names(names, prefix + matrix, {"kernel", "bias"});
    }
    for (const char* const norm : {"attention/output/LayerNorm/", "output/LayerNorm/"}) {
      add_names(names, prefix + norm, {"gamma", "beta"});
    }
  }
  add_names(names, "bert/pooler/dense/", {"kernel", "bias"});
  add_names(names, "cls/predictions/",
            {"output_bias", "transform/dense/kernel", "transform/dense/bias", "transform/LayerNorm/gamma", "transform/LayerNorm/beta"});
  add_names(names, "cls/seq_relationship/", {"output_weights", "output_bias"});
  std::sort(names.begin(), names.end());
  return names;
}

Ruleset place_of(std::string_view name) {
  return static_cast<Ruleset>(std::find(std::begin(kRulesets), std::end(kRulesets), name) - std::begin(kRulesets));
}

}  // namespace

std::span<const std::string_view> ruleset_names() { return kRulesets; }

Ruleset parse_ruleset(std::string_view option, std::string_view name) {
  const Ruleset place = place_of(name);
  check<ConfigError>(place < static_cast<Ruleset>(std::size(kRulesets)), "{} is '{}'; the rulesets with BERT are {}", option, name,
                     fmt::join(kRulesets, ", "));
  return place;
}

std::string_view name_of_ruleset(Ruleset ruleset) { return kRulesets[static_cast<std::size_t>(ruleset)]; }

bool RulesetSpan::holds(Ruleset ruleset) const { return ruleset >= place_of(first) && ruleset <= place_of(last); }

std::span<const KeyRule> key_rules() { return kKeyRules; }
std::span<const EitherRule> either_rules() { return kEitherRules; }

std::vector<KeyRule> rules_of(Ruleset ruleset, Division division) {
  std::vector<KeyRule> rules;
  for (const KeyRule& rule : kKeyRules) {
    const bool applies = rule.division == Division::kEither || rule.division == division;
    if (applies && rule.rulesets.holds(ruleset)) rules.push_back(rule);
  }
  return rules;
}

bool is_judged_key(std::string_view key) {
  return key == "seed" || std::any_of(std::begin(kKeyRules), std::end(kKeyRules), [&](const KeyRule& rule) { return rule.key == key; });
}

AccuracyLimits accuracy_limits(Division division) {
  if (division == Division::kOpen) return {};
  return {.least = kTargetAccuracy};
}

double initialisation_minutes(Ruleset ruleset, std::string_view division) {
  constexpr double kClosedMinutes = 30.0, kOpenMinutes = 240.0;
  if (!RulesetSpan{"2.0.0", "5.0.0"}.holds(ruleset)) return kClosedMinutes;
  if (division.empty()) return 0.0;
  return division == "open" ? kOpenMinutes : kClosedMinutes;
}

const std::vector<std::string>& reference_tensor_names() {
  static const std::vector<std::string> names = sorted_tensor_names();
  return names;
}

bool is_other_benchmark(std::string_view name) {
  return std::find(std::begin(kOtherBenchmarks), std::end(kOtherBenchmarks), name) != std::end(kOtherBenchmarks);
}

}  // namespace flashbert
