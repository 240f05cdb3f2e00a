#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "model/bert_config.h"

namespace flashbert {

/// How a parameter starts when no checkpoint is given.
enum class InitialValue { kTruncatedNormal, kZero, kOne };

/// One trainable tensor as files and logs know it.
struct ParameterInfo {
  std::string name;             ///< Hugging Face
  std::string tensorflow_name;  ///< the reference's, used in MLPerf logs
  Shape shape;                  ///< true size, [out, in] for weights
  bool decay = true;            ///< weight decay and trust ratio; false for biases and LayerNorm parameters
  InitialValue initial = InitialValue::kTruncatedNormal;
  std::size_t block = 0;  ///< where it lies: block and first row
  std::int64_t block_row = 0;
};

/// A contiguous piece of storage: one parameter, or query, key and value of a layer side by side (one product, three norms), or a
/// table padded to the vocabulary in memory. Gradients become ready block by block.
struct ParameterBlock {
  std::string name;
  Shape shape;
  bool matrix = false;  ///< has a compute-dtype copy (operand of a product, or an embedding table)
};

/// Indices of one encoder layer's blocks.
struct LayerBlocks {
  std::size_t qkv_weight = 0, qkv_bias = 0, output_weight = 0, output_bias = 0, attention_gamma = 0, attention_beta = 0;
  std::size_t up_weight = 0, up_bias = 0, down_weight = 0, down_bias = 0, output_gamma = 0, output_beta = 0;
};

/// THE list of parameters: names, shapes, exclusions and storage order. Everything else (checkpoints, optimizer, logs) asks it.
/// Blocks are in backward order: the heads first, the tied word embedding alone last.
class ParameterTable {
 public:
  explicit ParameterTable(const BertConfig& config);
  /// In the reference's order (embeddings, layers, pooler, heads).
  [[nodiscard]] const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<ParameterBlock>& blocks() const { return blocks_; }
  /// Index into parameters(), or -1.
  [[nodiscard]] std::int64_t find(std::string_view hugging_face_name) const;
  /// Sum of the true sizes.
  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::vector<std::string> tensorflow_names() const;
  /// "150 tensors with decay and trust ratio, 248 without" and the sums of elements.
  [[nodiscard]] std::string group_text() const;

  std::vector<LayerBlocks> layers;
  std::size_t word = 0, position = 0, segment = 0, embeddings_gamma = 0, embeddings_beta = 0;
  std::size_t pooler_weight = 0, pooler_bias = 0, nsp_weight = 0, nsp_bias = 0;
  std::size_t transform_weight = 0, transform_bias = 0, transform_gamma = 0, transform_beta = 0, decoder_bias = 0;

 private:
  void build_blocks(const BertConfig& config);
  void build_parameters(const BertConfig& config);
  std::size_t add_block(std::string name, const Shape& shape, bool matrix);
  std::vector<ParameterInfo> parameters_;
  std::vector<ParameterBlock> blocks_;
};

}  // namespace flashbert
