#include "model/bert_config.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace flashbert {
namespace {

constexpr std::int64_t kMaxHeadDim = 256;

void check_range(const char* key, std::int64_t value, IntegerRange range) {
  check<ConfigError>(value >= range.least && value <= range.most, "{} is {}; it must be {} to {}", key, value, range.least, range.most);
}

void check_rate(const char* key, float value) {
  constexpr auto kMost = static_cast<float>(BertConfig::kMostDropout);
  check<ConfigError>(value >= 0.0F && value <= kMost, "{} is {}; it must be 0 to {}", key, value, kMost);
}

template <class T>
void read_key(const nlohmann::json& json, const char* key, T& value, const std::filesystem::path& path) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  bool fits = found->is_number();
  const char* kind = "number";
  if constexpr (std::is_same_v<T, bool>) {
    fits = found->is_boolean();
    kind = "boolean";
  } else if constexpr (std::is_same_v<T, std::string>) {
    fits = found->is_string();
    kind = "string";
  } else if constexpr (std::is_integral_v<T>) {
    fits = found->is_number_integer();
    kind = "whole number";
  }
  check<InputError>(fits, "{}: {} is {}, not a {}", path.string(), key, found->dump(), kind);
  value = found->get<T>();
}

/// Other models write the same file; training them as if they were BERT would go wrong silently.
void check_kind(const nlohmann::json& json, const std::filesystem::path& path) {
  std::string type = "bert";
  std::string positions = "absolute";
  bool decoder = false;
  bool tied = true;
  read_key(json, "model_type", type, path);
  read_key(json, "position_embedding_type", positions, path);
  read_key(json, "is_decoder", decoder, path);
  read_key(json, "tie_word_embeddings", tied, path);
  check<InputError>(
      type == "bert" && positions == "absolute" && !decoder && tied,
      "{}: model_type {}, position_embedding_type {}, is_decoder {}, tie_word_embeddings {}; what is trained is an encoder of "
      "type bert with absolute positions and tied embeddings",
      path.string(), type, positions, decoder, tied);
}

}  // namespace

void BertConfig::validate() const {
  check_range("layers", layers, kLayers);
  check_range("hidden", hidden, kHidden);
  check_range("heads", heads, kHeads);
  check_range("intermediate", intermediate, kIntermediate);
  check_range("vocab", vocab, kVocab);
  check_range("max-positions", max_positions, kPositions);
  check_range("type-vocab", type_vocab, kTypeVocab);
  check<ConfigError>(hidden % heads == 0, "hidden {} is not a multiple of heads {}; see configs/README.md", hidden, heads);
  check<ConfigError>(head_dim() % 8 == 0 && head_dim() <= kMaxHeadDim,
                     "hidden {} / heads {} gives head size {}; it must be a multiple of 8, at most {} (32 and 64 are fast)", hidden, heads,
                     head_dim(), kMaxHeadDim);
  check<ConfigError>(intermediate % 8 == 0, "intermediate {} is not a multiple of 8", intermediate);
  check_rate("hidden-dropout", hidden_dropout);
  check_rate("attention-dropout", attention_dropout);
}

BertConfig read_hugging_face_config(const std::filesystem::path& path, std::string* note) {
  std::error_code ignored;
  check<InputError>(std::filesystem::is_regular_file(path, ignored), "cannot open the model configuration {}: there is no such file",
                    path.string());
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check<InputError>(json.is_object(), "{} is not a JSON object; a Hugging Face config.json is expected", path.string());
  const bool names_a_size = json.contains("hidden_size") || json.contains("num_hidden_layers") || json.contains("vocab_size");
  check<InputError>(names_a_size, "{} names no size of a model (hidden_size, num_hidden_layers, vocab_size)", path.string());
  check_kind(json, path);
  BertConfig config;
  read_key(json, "num_hidden_layers", config.layers, path);
  read_key(json, "hidden_size", config.hidden, path);
  read_key(json, "num_attention_heads", config.heads, path);
  read_key(json, "intermediate_size", config.intermediate, path);
  read_key(json, "vocab_size", config.vocab, path);
  read_key(json, "max_position_embeddings", config.max_positions, path);
  read_key(json, "type_vocab_size", config.type_vocab, path);
  read_key(json, "hidden_dropout_prob", config.hidden_dropout, path);
  read_key(json, "attention_probs_dropout_prob", config.attention_dropout, path);
  double eps = 1e-12;
  read_key(json, "layer_norm_eps", eps, path);
  check<InputError>(std::abs(eps - 1e-12) < 1e-15, "{}: layer_norm_eps is {}; the benchmark's 1e-12 is the only value supported",
                    path.string(), eps);
  std::string activation = "gelu";
  read_key(json, "hidden_act", activation, path);
  check<InputError>(activation == "gelu" || activation == "gelu_new" || activation == "gelu_pytorch_tanh",
                    "{}: hidden_act is '{}'; gelu, gelu_new and gelu_pytorch_tanh are read (all as the tanh form)", path.string(),
                    activation);
  if (note != nullptr) *note = fmt::format("{}: hidden_act {} means the tanh form of GELU here", path.string(), activation);
  return config;
}

std::string hugging_face_config_text(const BertConfig& config) {
  const auto rate = [](float value) { return std::round(static_cast<double>(value) * 1e6) / 1e6; };
  nlohmann::ordered_json json = {
      {"architectures", {"BertForPreTraining"}},
      {"model_type", "bert"},
      {"vocab_size", config.vocab},
      {"hidden_size", config.hidden},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"intermediate_size", config.intermediate},
      {"max_position_embeddings", config.max_positions},
      {"type_vocab_size", config.type_vocab},
      {"hidden_act", "gelu_new"},
      {"layer_norm_eps", 1e-12},
      {"hidden_dropout_prob", rate(config.hidden_dropout)},
      {"attention_probs_dropout_prob", rate(config.attention_dropout)},
      {"initializer_range", 0.02},
      {"pad_token_id", 0},
      {"tie_word_embeddings", true},
  };
  return json.dump(1) + "\n";
}

}  // namespace flashbert
