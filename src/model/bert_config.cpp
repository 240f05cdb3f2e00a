#include "model/bert_config.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace flashbert {
namespace {

constexpr std::int64_t kMaxHeadDim = 256;
constexpr std::int64_t kMaxPositions = 65535;  // positions share a 32-bit dropout counter word with block numbers
constexpr std::int64_t kMaxLayers = 4000;      // 12 bits of the same counter
constexpr std::int64_t kMaxHeads = 65535;

void check_range(const char* key, std::int64_t value, std::int64_t low, std::int64_t high) {
  check<ConfigError>(value >= low && value <= high, "{} is {}; it must be {} to {}", key, value, low, high);
}

void check_rate(const char* key, float value) {
  check<ConfigError>(value >= 0.0F && value < 1.0F, "{} is {}; it must be at least 0 and below 1", key, value);
}

template <class T>
void read_key(const nlohmann::json& json, const char* key, T& value, const std::filesystem::path& path) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  const bool fits = std::is_integral_v<T> ? found->is_number_integer() : found->is_number();
  check<InputError>(fits, "{}: {} is {}, not a {}", path.string(), key, found->dump(), std::is_integral_v<T> ? "whole number" : "number");
  value = found->get<T>();
}

}  // namespace

void BertConfig::validate() const {
  check_range("layers", layers, 1, kMaxLayers);
  check_range("hidden", hidden, 8, 65536);
  check_range("heads", heads, 1, kMaxHeads);
  check_range("intermediate", intermediate, 8, 1 << 20);
  check_range("vocab", vocab, 8, 1 << 24);
  check_range("max-positions", max_positions, 1, kMaxPositions);
  check_range("type-vocab", type_vocab, 1, 256);
  check<ConfigError>(hidden % heads == 0, "hidden {} is not a multiple of heads {}; see configs/README.md", hidden, heads);
  check<ConfigError>(head_dim() % 8 == 0 && head_dim() <= kMaxHeadDim,
                     "hidden {} / heads {} gives head size {}; it must be a multiple of 8, at most {} (32 and 64 are fast)", hidden, heads,
                     head_dim(), kMaxHeadDim);
  check<ConfigError>(intermediate % 8 == 0, "intermediate {} is not a multiple of 8", intermediate);
  check_rate("hidden-dropout", hidden_dropout);
  check_rate("attention-dropout", attention_dropout);
}

BertConfig read_hugging_face_config(const std::filesystem::path& path, std::string* note) {
  std::ifstream file(path);
  check<InputError>(file.good(), "cannot open the model configuration {}", path.string());
  const auto json = nlohmann::json::parse(file, nullptr, false);
  check<InputError>(json.is_object(), "{} is not a JSON object; a Hugging Face config.json is expected", path.string());
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
  const std::string activation = json.value("hidden_act", "gelu");
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
