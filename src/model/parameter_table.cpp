#include "model/parameter_table.h"

#include <utility>

namespace flashbert {

std::size_t ParameterTable::add_block(std::string name, const Shape& shape, bool matrix) {
  blocks_.push_back({std::move(name), shape, matrix});
  return blocks_.size() - 1;
}

ParameterTable::ParameterTable(const BertConfig& config) {
  build_blocks(config);
  build_parameters(config);
}

void ParameterTable::build_blocks(const BertConfig& config) {
  const std::int64_t hidden = config.hidden;
  decoder_bias = add_block("cls.predictions.bias", {config.padded_vocab()}, false);
  transform_gamma = add_block("cls.predictions.transform.LayerNorm.weight", {hidden}, false);
  transform_beta = add_block("cls.predictions.transform.LayerNorm.bias", {hidden}, false);
  transform_weight = add_block("cls.predictions.transform.dense.weight", {hidden, hidden}, true);
  transform_bias = add_block("cls.predictions.transform.dense.bias", {hidden}, false);
  nsp_weight = add_block("cls.seq_relationship.weight", {2, hidden}, true);
  nsp_bias = add_block("cls.seq_relationship.bias", {2}, false);
  pooler_weight = add_block("bert.pooler.dense.weight", {hidden, hidden}, true);
  pooler_bias = add_block("bert.pooler.dense.bias", {hidden}, false);
  layers.resize(static_cast<std::size_t>(config.layers));
  for (std::int64_t layer = config.layers - 1; layer >= 0; --layer) {
    const std::string prefix = fmt::format("bert.encoder.layer.{}.", layer);
    LayerBlocks& blocks = layers[static_cast<std::size_t>(layer)];
    blocks.output_gamma = add_block(prefix + "output.LayerNorm.weight", {hidden}, false);
    blocks.output_beta = add_block(prefix + "output.LayerNorm.bias", {hidden}, false);
    blocks.down_weight = add_block(prefix + "output.dense.weight", {hidden, config.intermediate}, true);
    blocks.down_bias = add_block(prefix + "output.dense.bias", {hidden}, false);
    blocks.up_weight = add_block(prefix + "intermediate.dense.weight", {config.intermediate, hidden}, true);
    blocks.up_bias = add_block(prefix + "intermediate.dense.bias", {config.intermediate}, false);
    blocks.attention_gamma = add_block(prefix + "attention.output.LayerNorm.weight", {hidden}, false);
    blocks.attention_beta = add_block(prefix + "attention.output.LayerNorm.bias", {hidden}, false);
    blocks.output_weight = add_block(prefix + "attention.output.dense.weight", {hidden, hidden}, true);
    blocks.output_bias = add_block(prefix + "attention.output.dense.bias", {hidden}, false);
    blocks.qkv_weight = add_block(prefix + "attention.self.qkv.weight", {3 * hidden, hidden}, true);
    blocks.qkv_bias = add_block(prefix + "attention.self.qkv.bias", {3 * hidden}, false);
  }
  embeddings_gamma = add_block("bert.embeddings.LayerNorm.weight", {hidden}, false);
  embeddings_beta = add_block("bert.embeddings.LayerNorm.bias", {hidden}, false);
  segment = add_block("bert.embeddings.token_type_embeddings.weight", {config.type_vocab, hidden}, true);
  position = add_block("bert.embeddings.position_embeddings.weight", {config.max_positions, hidden}, true);
  word = add_block("bert.embeddings.word_embeddings.weight", {config.padded_vocab(), hidden}, true);
}

namespace {

/// Collects parameters with the reference's naming rules: kernels are stored [in, out] by TensorFlow, [out, in] here.
class Builder {
 public:
  explicit Builder(std::vector<ParameterInfo>& parameters) : parameters_(parameters) {}

  void table(const std::string& scope, const std::string& name, std::size_t block, const Shape& shape) {
    parameters_.push_back({.name = scope + name + ".weight", .tensorflow_name = slashes(scope) + name, .shape = shape, .block = block});
  }
  void layer_norm(const std::string& scope, std::size_t gamma, std::size_t beta, std::int64_t hidden) {
    vector(scope + "LayerNorm.weight", slashes(scope) + "LayerNorm/gamma", gamma, hidden, InitialValue::kOne);
    vector(scope + "LayerNorm.bias", slashes(scope) + "LayerNorm/beta", beta, hidden, InitialValue::kZero);
  }
  void dense(const std::string& scope, std::size_t weight, std::size_t bias, std::int64_t out, std::int64_t in, std::int64_t row = 0) {
    parameters_.push_back(
        {.name = scope + "weight", .tensorflow_name = slashes(scope) + "kernel", .shape = {out, in}, .block = weight, .block_row = row});
    vector(scope + "bias", slashes(scope) + "bias", bias, out, InitialValue::kZero, row);
  }
  void vector(std::string name, std::string tensorflow_name, std::size_t block, std::int64_t size, InitialValue initial,
              std::int64_t row = 0) {
    parameters_.push_back({.name = std::move(name),
                           .tensorflow_name = std::move(tensorflow_name),
                           .shape = {size},
                           .decay = false,
                           .initial = initial,
                           .block = block,
                           .block_row = row});
  }

 private:
  /// "bert.encoder.layer.3.output." -> "bert/encoder/layer_3/output/"
  static std::string slashes(std::string scope) {
    if (const auto at = scope.find("layer."); at != std::string::npos) scope[at + 5] = '_';
    for (char& c : scope) c = c == '.' ? '/' : c;
    return scope;
  }
  std::vector<ParameterInfo>& parameters_;
};

}  // namespace

void ParameterTable::build_parameters(const BertConfig& config) {
  const std::int64_t hidden = config.hidden;
  Builder build(parameters_);
  const std::string embeddings = "bert.embeddings.";
  build.table(embeddings, "word_embeddings", word, {config.vocab, hidden});
  build.table(embeddings, "position_embeddings", position, {config.max_positions, hidden});
  build.table(embeddings, "token_type_embeddings", segment, {config.type_vocab, hidden});
  build.layer_norm(embeddings, embeddings_gamma, embeddings_beta, hidden);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = fmt::format("bert.encoder.layer.{}.", layer);
    const LayerBlocks& blocks = layers[static_cast<std::size_t>(layer)];
    std::int64_t row = 0;
    for (const char* const part : {"query", "key", "value"}) {
      build.dense(fmt::format("{}attention.self.{}.", prefix, part), blocks.qkv_weight, blocks.qkv_bias, hidden, hidden, row);
      row += hidden;
    }
    build.dense(prefix + "attention.output.dense.", blocks.output_weight, blocks.output_bias, hidden, hidden);
    build.layer_norm(prefix + "attention.output.", blocks.attention_gamma, blocks.attention_beta, hidden);
    build.dense(prefix + "intermediate.dense.", blocks.up_weight, blocks.up_bias, config.intermediate, hidden);
    build.dense(prefix + "output.dense.", blocks.down_weight, blocks.down_bias, hidden, config.intermediate);
    build.layer_norm(prefix + "output.", blocks.output_gamma, blocks.output_beta, hidden);
  }
  build.dense("bert.pooler.dense.", pooler_weight, pooler_bias, hidden, hidden);
  build.vector("cls.predictions.bias", "cls/predictions/output_bias", decoder_bias, config.vocab, InitialValue::kZero);
  build.dense("cls.predictions.transform.dense.", transform_weight, transform_bias, hidden, hidden);
  build.layer_norm("cls.predictions.transform.", transform_gamma, transform_beta, hidden);
  parameters_.push_back({.name = "cls.seq_relationship.weight",
                         .tensorflow_name = "cls/seq_relationship/output_weights",
                         .shape = {2, hidden},
                         .block = nsp_weight});
  build.vector("cls.seq_relationship.bias", "cls/seq_relationship/output_bias", nsp_bias, 2, InitialValue::kZero);
}

std::int64_t ParameterTable::find(std::string_view hugging_face_name) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == hugging_face_name) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::int64_t ParameterTable::elements() const {
  std::int64_t sum = 0;
  for (const ParameterInfo& parameter : parameters_) sum += parameter.shape.elements();
  return sum;
}

std::vector<std::string> ParameterTable::tensorflow_names() const {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : parameters_) names.push_back(parameter.tensorflow_name);
  return names;
}

std::string ParameterTable::group_text() const {
  std::int64_t decayed = 0;
  std::int64_t decayed_elements = 0;
  for (const ParameterInfo& parameter : parameters_) {
    decayed += parameter.decay ? 1 : 0;
    decayed_elements += parameter.decay ? parameter.shape.elements() : 0;
  }
  return fmt::format("{} tensors ({} elements) with weight decay and trust ratio, {} tensors ({} elements) without", decayed,
                     decayed_elements, static_cast<std::int64_t>(parameters_.size()) - decayed, elements() - decayed_elements);
}

}  // namespace flashbert
