#include "commands/setting_keys.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"

namespace flashbert {
namespace {

using Kind = KeySpec::Kind;
constexpr std::int64_t kMost = kNoLimit;

/// Builds rows whose members are reached by a generic function from settings, constant or not, to a reference.
class Table {
 public:
  template <class Access>
  void text(const char* name, const char* help, Access access) {
    add(
        name, Kind::kText, help, [=](TrainSettings& s, const OptionValue& value) { access(s) = parse_text(name, value); }, access);
  }
  template <class Access>
  void integer(const char* name, const char* help, IntegerRange range, Access access) {
    add(
        name, Kind::kNumber, help,
        [=](TrainSettings& s, const OptionValue& value) { access(s) = parse_integer(name, value, range.least, range.most); },
        [access](const TrainSettings& s) { return std::to_string(access(s)); });
  }
  template <class Access>
  void real(const char* name, const char* help, double low, double high, Access access) {
    add(
        name, Kind::kNumber, help,
        [=](TrainSettings& s, const OptionValue& value) {
          access(s) = static_cast<std::remove_reference_t<decltype(access(s))>>(parse_real(name, value, low, high));
        },
        [access](const TrainSettings& s) { return real_text(access(s)); });
  }
  template <class Access>
  void boolean(const char* name, const char* help, Access access) {
    add(
        name, Kind::kBoolean, help, [=](TrainSettings& s, const OptionValue& value) { access(s) = parse_boolean(name, value); },
        [access](const TrainSettings& s) { return access(s) ? "true" : "false"; });
  }
  template <class Enum, class Access>
  void choice(const char* name, const char* help, std::vector<std::pair<std::string, Enum>> choices, Access access) {
    add(
        name, Kind::kText, help,
        [=](TrainSettings& s, const OptionValue& value) {
          std::string names;
          for (const auto& [text, which] : choices) {
            if (text == parse_text(name, value)) {
              access(s) = which;
              return;
            }
            names += (names.empty() ? "" : " or ") + text;
          }
          throw ConfigError(fmt::format("{} is '{}'; choose {}", name, parse_text(name, value), names));
        },
        [=](const TrainSettings& s) {
          return std::find_if(choices.begin(), choices.end(), [&](const auto& known) { return known.second == access(s); })->first;
        });
  }
  void seed(const char* name, const char* help) {
    add(
        name, Kind::kNumber, help, [=](TrainSettings& s, const OptionValue& value) { s.seed = parse_unsigned(name, value); },
        [](const TrainSettings& s) { return std::to_string(s.seed); });
  }
  std::vector<KeySpec> take() { return std::move(keys_); }

 private:
  template <class Set, class Get>
  void add(const char* name, Kind kind, const char* help, Set set, Get get) {
    keys_.push_back({.name = name, .kind = kind, .help = help, .set = std::move(set), .get = std::move(get)});
  }
  std::vector<KeySpec> keys_;
};

void add_data_and_model(Table& table) {
  table.text(
      "train-data", "file or folder of shards", [](auto& s) -> auto& { return s.train_data; });
  table.text(
      "eval-data", "file or folder of shards; without it nothing is evaluated", [](auto& s) -> auto& { return s.eval_data; });
  table.text(
      "init", "random, or a safetensors checkpoint (file or folder)", [](auto& s) -> auto& { return s.init; });
  table.text(
      "resume", "not in this version", [](auto& s) -> auto& { return s.resume; });
  table.text(
      "out", "results folder", [](auto& s) -> auto& { return s.out; });
  table.integer(
      "layers", "encoder layers", BertConfig::kLayers, [](auto& s) -> auto& { return s.model.layers; });
  table.integer(
      "hidden", "hidden size", BertConfig::kHidden, [](auto& s) -> auto& { return s.model.hidden; });
  table.integer(
      "heads", "attention heads", BertConfig::kHeads, [](auto& s) -> auto& { return s.model.heads; });
  table.integer(
      "intermediate", "inner size of the feed-forward layers", BertConfig::kIntermediate,
      [](auto& s) -> auto& { return s.model.intermediate; });
  table.integer(
      "vocab", "vocabulary size", BertConfig::kVocab, [](auto& s) -> auto& { return s.model.vocab; });
  table.integer(
      "max-positions", "longest sequence", BertConfig::kPositions, [](auto& s) -> auto& { return s.model.max_positions; });
  table.integer(
      "type-vocab", "segments", BertConfig::kTypeVocab, [](auto& s) -> auto& { return s.model.type_vocab; });
  table.real(
      "hidden-dropout", "dropout rate of embeddings and sublayers", 0.0, BertConfig::kMostDropout,
      [](auto& s) -> auto& { return s.model.hidden_dropout; });
  table.real(
      "attention-dropout", "dropout rate of attention probabilities", 0.0, BertConfig::kMostDropout,
      [](auto& s) -> auto& { return s.model.attention_dropout; });
}

void add_training(Table& table) {
  table.integer(
      "global-batch", "samples per update over all ranks", {1, kMost}, [](auto& s) -> auto& { return s.global_batch; });
  table.integer(
      "micro-batch", "samples at once on one rank; 0 = chosen and logged", {0, kMost}, [](auto& s) -> auto& { return s.micro_batch; });
  table.integer(
      "accum", "micro-batches an update; derived, checked if given", {0, kMost}, [](auto& s) -> auto& { return s.accum; });
  table.integer(
      "max-predictions", "most masked positions of a sample; 0 = what the files tell, else 16 % of the length", {0, 65535},
      [](auto& s) -> auto& { return s.max_predictions; });
  table.integer(
      "max-steps", "limit, 0 = none", {0, kMost}, [](auto& s) -> auto& { return s.max_steps; });
  table.integer(
      "max-samples", "limit, 0 = none", {0, kMost}, [](auto& s) -> auto& { return s.max_samples; });
  table.real(
      "target-accuracy", "masked-LM accuracy that ends the run", 0.0, 1.0, [](auto& s) -> auto& { return s.target_accuracy; });
  table.integer(
      "eval-every-samples", "0 = the MLPerf rule", {0, kMost}, [](auto& s) -> auto& { return s.eval_every_samples; });
  table.integer(
      "eval-samples", "0 = all samples of eval-data", {0, kMost}, [](auto& s) -> auto& { return s.eval_samples; });
  table.boolean(
      "eval-at-start", "evaluate before the first step", [](auto& s) -> auto& { return s.eval_at_start; });
}

void add_optimizer(Table& table) {
  table.real(
      "lr", "base learning rate", 0.0, 1e6, [](auto& s) -> auto& { return s.optimizer.lr; });
  table.integer(
      "lr-total-steps", "steps at whose end the rate is 0", {1, kMost}, [](auto& s) -> auto& { return s.optimizer.lr_total_steps; });
  table.integer(
      "warmup-steps", "steps of linear warm-up", {0, kMost}, [](auto& s) -> auto& { return s.optimizer.warmup_steps; });
  table.integer(
      "start-warmup-step", "step at which the warm-up starts, may be negative", {-kMost, kMost},
      [](auto& s) -> auto& { return s.optimizer.start_warmup_step; });
  table.real(
      "lr-power", "power of the decay", 0.0, 100.0, [](auto& s) -> auto& { return s.optimizer.lr_power; });
  table.real(
      "beta1", "LAMB", 0.0, 0.9999999, [](auto& s) -> auto& { return s.optimizer.beta1; });
  table.real(
      "beta2", "LAMB", 0.0, 0.9999999, [](auto& s) -> auto& { return s.optimizer.beta2; });
  table.real(
      "epsilon", "LAMB", 0.0, 1.0, [](auto& s) -> auto& { return s.optimizer.epsilon; });
  table.real(
      "weight-decay", "LAMB", 0.0, 1e3, [](auto& s) -> auto& { return s.optimizer.weight_decay; });
  table.real(
      "clip-norm", "limit of the global gradient norm", 1e-12, 1e30, [](auto& s) -> auto& { return s.optimizer.clip_norm; });
  table.choice<ClipOrder>(
      "clip", "after-reduce: clip the reduced gradient; before-reduce: each micro-batch's (the reference)",
      {{"after-reduce", ClipOrder::kAfterReduce}, {"before-reduce", ClipOrder::kBeforeReduce}}, [](auto& s) -> auto& { return s.clip; });
  table.choice<LossNormalisation>(
      "loss-normalisation", "global: mean over the global batch; per-rank: of each micro-batch (the reference)",
      {{"global", LossNormalisation::kGlobal}, {"per-rank", LossNormalisation::kPerRank}},
      [](auto& s) -> auto& { return s.loss_normalisation; });
}

void add_run(Table& table) {
  table.choice<Precision>(
      "precision", "bf16 or f32", {{"f32", Precision::kF32}, {"bf16", Precision::kBf16}}, [](auto& s) -> auto& { return s.precision; });
  table.text(
      "device", "cpu, cuda or auto", [](auto& s) -> auto& { return s.device; });
  table.integer(
      "threads", "0 = all cores of the binding", {0, 1024}, [](auto& s) -> auto& { return s.threads; });
  table.seed("seed", "0 = from system entropy, logged");
  table.integer(
      "save-every-steps", "0 = never", {0, kMost}, [](auto& s) -> auto& { return s.save_every_steps; });
  table.boolean(
      "save-at-end", "save when the run ends, also by a signal", [](auto& s) -> auto& { return s.save_at_end; });
  table.integer(
      "keep", "saves kept", {1, 1000000}, [](auto& s) -> auto& { return s.keep; });
  table.text(
      "trace-samples", "file that gets one line a sample used: step, slot, rank, shard, row",
      [](auto& s) -> auto& { return s.trace_samples; });
  table.text(
      "submission-org", "log field, required for closed", [](auto& s) -> auto& { return s.submission.org; });
  table.text(
      "submission-division", "closed or open", [](auto& s) -> auto& { return s.submission.division; });
  table.text(
      "submission-status", "cloud, onprem, preview or research", [](auto& s) -> auto& { return s.submission.status; });
  table.text(
      "submission-platform", "log field, required for closed", [](auto& s) -> auto& { return s.submission.platform; });
  table.boolean(
      "tensorboard", "not in this version", [](auto& s) -> auto& { return s.tensorboard; });
}

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

}  // namespace

const std::vector<KeySpec>& train_keys() {
  static const std::vector<KeySpec> keys = [] {
    Table table;
    add_data_and_model(table);
    add_training(table);
    add_optimizer(table);
    add_run(table);
    return table.take();
  }();
  return keys;
}

const KeySpec* find_key(std::string_view name) {
  const auto& keys = train_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const KeySpec& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string toml_name(const std::string& key) { return with(key, '-', '_'); }

std::string option_name(const std::string& toml_key) { return with(toml_key, '_', '-'); }

std::string environment_name(const std::string& key) {
  std::string name = "FLASHBERT_" + toml_name(key);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

}  // namespace flashbert
