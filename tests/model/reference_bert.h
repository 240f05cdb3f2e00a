#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "reference/cross_entropy.h"
#include "reference/dropout.h"
#include "reference/elementwise.h"
#include "reference/embeddings.h"
#include "reference/layer_norm.h"
#include "reference/linear.h"

namespace flashbert::testing {

using Values = std::vector<double>;
/// By Hugging Face's names, weights [out, in].
using NamedValues = std::map<std::string, Values>;

struct ReferenceShape {
  std::size_t layers = 0, hidden = 0, heads = 0, intermediate = 0, vocab = 0, positions = 0, segments = 0;
  float hidden_dropout = 0.0F, attention_dropout = 0.0F;
};

/// Samples back to back; every row of every layer is computed.
struct ReferenceBatch {
  std::vector<std::int32_t> tokens, segments, positions, sequences, cu_tokens = {0};
  std::vector<std::uint64_t> sample_indices;
  std::vector<std::int32_t> masked_rows, masked_labels, next_sentence_labels;
  [[nodiscard]] std::size_t rows() const { return tokens.size(); }
};

struct ReferenceLoss {
  double mlm_nll = 0.0, nsp_nll = 0.0;
  std::int64_t mlm_correct = 0, nsp_correct = 0;
  std::vector<std::int32_t> guesses;                               ///< best class of every masked row
  double smallest_lead = std::numeric_limits<double>::infinity();  ///< of a best logit over the next
  NamedValues gradients;                                           ///< of mlm_scale * mlm_nll + nsp_scale * nsp_nll
};

struct ReferencePass {
  bool training = true;  ///< dropout on
  std::uint64_t seed = 0;
  double mlm_scale = 1.0, nsp_scale = 1.0;
};

/// BERT for pre-training from the paper and google-research/bert modeling.py, in double, one operation after the other: post-LayerNorm
/// encoder, tanh GELU, pooler and tied decoder, dropout by the reference rule. Knows nothing of the model under test.
class ReferenceBert {
 public:
  ReferenceBert(const ReferenceShape& shape, const NamedValues& weights) : shape_(shape), w_(weights) {}

  [[nodiscard]] ReferenceLoss run(const ReferenceBatch& batch, const ReferencePass& pass) {
    batch_ = &batch;
    pass_ = &pass;
    result_ = {};
    const Values x = forward();
    const Values dx = heads(x);
    backward(dx);
    return std::move(result_);
  }

 private:
  struct Norm {
    Values z, mean, rstd, mask;
  };
  struct Layer {
    Values x, attended, before_gelu, after_gelu;
    reference::AttentionTensors<double> qkv;
    reference::AttentionResult<double> attention;
    Norm attention_norm, output_norm;
  };

  [[nodiscard]] const Values& weight(const std::string& name) const { return w_.at(name); }
  void add(const std::string& name, const Values& gradient) {
    Values& sum = result_.gradients[name];
    sum.resize(gradient.size(), 0.0);
    for (std::size_t i = 0; i < gradient.size(); ++i) sum[i] += gradient[i];
  }
  [[nodiscard]] Dropout dropout(float rate, std::size_t layer, DropoutSite site) const {
    return {.rate = pass_->training ? rate : 0.0F, .seed = pass_->seed, .layer = static_cast<std::uint32_t>(layer), .site = site};
  }
  [[nodiscard]] Values hidden_mask(std::size_t layer, DropoutSite site) const {
    return reference::hidden_mask(dropout(shape_.hidden_dropout, layer, site),
                                  {batch_->sequences, batch_->positions, batch_->sample_indices}, shape_.hidden);
  }

  Values linear(const std::string& scope, const Values& x, std::size_t in, std::size_t out) const {
    return reference::linear_forward<double>({x.size() / in, in, out}, x, weight(scope + ".weight"), weight(scope + ".bias"));
  }
  Values linear_backward(const std::string& scope, const Values& dy, const Values& x, std::size_t in, std::size_t out) {
    const reference::LinearExtents e{x.size() / in, in, out};
    const auto gradients = reference::linear_weight_gradient<double>(e, dy, x, {});
    add(scope + ".weight", gradients.weight);
    add(scope + ".bias", gradients.bias);
    return reference::linear_input_gradient<double>(e, dy, weight(scope + ".weight"), {});
  }
  Values norm(const std::string& scope, Norm& norm) const {
    auto result = reference::layer_norm_forward<double>({norm.z.size() / shape_.hidden, shape_.hidden}, norm.z, weight(scope + ".weight"),
                                                        weight(scope + ".bias"), reference::kNormEps);
    norm.mean = result.mean;
    norm.rstd = result.rstd;
    return result.y;
  }
  Values norm_backward(const std::string& scope, const Values& dy, const Norm& norm) {
    const auto result = reference::layer_norm_backward<double>({norm.z.size() / shape_.hidden, shape_.hidden}, dy,
                                                               {norm.z, norm.mean, norm.rstd, weight(scope + ".weight")});
    add(scope + ".weight", result.dgamma);
    add(scope + ".bias", result.dbeta);
    return result.dz;
  }
  /// LayerNorm(dropout(branch) + residual).
  Values residual_norm(const std::string& scope, const Values& branch, const Values& residual, Norm& kept) const {
    kept.z = reference::masked(branch, kept.mask);
    for (std::size_t i = 0; i < kept.z.size(); ++i) kept.z[i] += residual[i];
    return norm(scope, kept);
  }

  Values forward() {
    embeddings_.z = reference::embeddings_sum<double>(
        {batch_->tokens, batch_->positions, batch_->segments},
        {weight("bert.embeddings.word_embeddings.weight"), weight("bert.embeddings.position_embeddings.weight"),
         weight("bert.embeddings.token_type_embeddings.weight")},
        shape_.hidden);
    embeddings_.mask = hidden_mask(0, DropoutSite::kEmbeddings);
    Values x = reference::masked(norm("bert.embeddings.LayerNorm", embeddings_), embeddings_.mask);
    layers_.assign(shape_.layers, {});
    for (std::size_t l = 0; l < shape_.layers; ++l) x = layer_forward(l, x);
    return x;
  }
  [[nodiscard]] static std::string scope(std::size_t layer) { return "bert.encoder.layer." + std::to_string(layer) + "."; }
  [[nodiscard]] reference::AttentionBatch attention_batch(std::size_t layer) const {
    return {.heads = shape_.heads,
            .head_dim = shape_.hidden / shape_.heads,
            .query_rows = batch_->rows(),
            .key_rows = batch_->rows(),
            .cu_queries = batch_->cu_tokens,
            .cu_keys = batch_->cu_tokens,
            .query_position = batch_->positions,
            .sample_index = batch_->sample_indices,
            .scale = 1.0 / std::sqrt(static_cast<double>(shape_.hidden / shape_.heads)),
            .dropout = dropout(shape_.attention_dropout, layer, DropoutSite::kAttention)};
  }
  Values layer_forward(std::size_t l, const Values& x) {
    Layer& layer = layers_[l];
    const std::size_t h = shape_.hidden;
    layer.x = x;
    layer.qkv = {linear(scope(l) + "attention.self.query", x, h, h), linear(scope(l) + "attention.self.key", x, h, h),
                 linear(scope(l) + "attention.self.value", x, h, h)};
    layer.attention = reference::attention_forward<double>(attention_batch(l), layer.qkv);
    layer.attention_norm.mask = hidden_mask(l, DropoutSite::kAttentionOutput);
    layer.attended = residual_norm(scope(l) + "attention.output.LayerNorm",
                                   linear(scope(l) + "attention.output.dense", layer.attention.out, h, h), x, layer.attention_norm);
    layer.before_gelu = linear(scope(l) + "intermediate.dense", layer.attended, h, shape_.intermediate);
    layer.after_gelu.clear();
    for (const double value : layer.before_gelu) layer.after_gelu.push_back(reference::gelu(value));
    layer.output_norm.mask = hidden_mask(l, DropoutSite::kFeedForwardOutput);
    return residual_norm(scope(l) + "output.LayerNorm", linear(scope(l) + "output.dense", layer.after_gelu, shape_.intermediate, h),
                         layer.attended, layer.output_norm);
  }

  /// Losses and the gradient of the encoder's output.
  Values heads(const Values& x) {
    const std::size_t h = shape_.hidden;
    Values dx = masked_head(x);
    const std::vector<std::int32_t> first(batch_->cu_tokens.begin(), batch_->cu_tokens.end() - 1);
    const std::size_t sequences = first.size();
    const Values cls = reference::gather_rows(x, first, h);
    Values pooled = linear("bert.pooler.dense", cls, h, h);
    for (double& value : pooled) value = std::tanh(value);
    const auto loss = reference::softmax_cross_entropy<double>({sequences, 2, 2}, linear("cls.seq_relationship", pooled, h, 2),
                                                               batch_->next_sentence_labels, pass_->nsp_scale);
    for (const double nll : loss.nll) result_.nsp_nll += nll;
    result_.nsp_correct = loss.correct;
    Values dpooled = linear_backward("cls.seq_relationship", loss.gradient, pooled, h, 2);
    for (std::size_t i = 0; i < dpooled.size(); ++i) dpooled[i] = reference::tanh_gradient(dpooled[i], pooled[i]);
    return reference::scatter_add_rows(dx, linear_backward("bert.pooler.dense", dpooled, cls, h, h), first, h);
  }
  Values masked_head(const Values& x) {
    const std::size_t h = shape_.hidden;
    const Values rows = reference::gather_rows(x, batch_->masked_rows, h);
    const Values before_gelu = linear("cls.predictions.transform.dense", rows, h, h);
    Norm transform;
    for (const double value : before_gelu) transform.z.push_back(reference::gelu(value));
    const Values y = norm("cls.predictions.transform.LayerNorm", transform);
    const reference::LinearExtents decoder{batch_->masked_rows.size(), h, shape_.vocab};
    const Values& table = weight("bert.embeddings.word_embeddings.weight");
    const Values logits = reference::linear_forward<double>(decoder, y, table, weight("cls.predictions.bias"));
    const auto loss = reference::softmax_cross_entropy<double>({decoder.rows, shape_.vocab, shape_.vocab}, logits, batch_->masked_labels,
                                                               pass_->mlm_scale);
    note_guesses(logits);
    for (const double nll : loss.nll) result_.mlm_nll += nll;
    result_.mlm_correct = loss.correct;
    const auto gradients = reference::linear_weight_gradient<double>(decoder, loss.gradient, y, {});
    add("bert.embeddings.word_embeddings.weight", gradients.weight);
    add("cls.predictions.bias", gradients.bias);
    Values dgelu = norm_backward("cls.predictions.transform.LayerNorm",
                                 reference::linear_input_gradient<double>(decoder, loss.gradient, table, {}), transform);
    for (std::size_t i = 0; i < dgelu.size(); ++i) dgelu[i] *= reference::gelu_slope(before_gelu[i]);
    return reference::scatter_add_rows(Values(x.size(), 0.0), linear_backward("cls.predictions.transform.dense", dgelu, rows, h, h),
                                       batch_->masked_rows, h);
  }

  void note_guesses(const Values& logits) {
    for (std::size_t row = 0; row < logits.size(); row += shape_.vocab) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row);
      Values sorted(begin, begin + static_cast<std::ptrdiff_t>(shape_.vocab));
      result_.guesses.push_back(static_cast<std::int32_t>(std::max_element(sorted.begin(), sorted.end()) - sorted.begin()));
      std::sort(sorted.begin(), sorted.end());
      result_.smallest_lead = std::min(result_.smallest_lead, sorted[shape_.vocab - 1] - sorted[shape_.vocab - 2]);
    }
  }

  void backward(Values dx) {
    for (std::size_t l = shape_.layers; l-- > 0;) dx = layer_backward(l, dx);
    const Values dz = norm_backward("bert.embeddings.LayerNorm", reference::masked(dx, embeddings_.mask), embeddings_);
    const auto table = [&](const std::string& name, std::size_t rows, const std::vector<std::int32_t>& ids) {
      add(name, reference::embedding_gradient<double>(Values(rows * shape_.hidden, 0.0), dz, ids, shape_.hidden));
    };
    table("bert.embeddings.word_embeddings.weight", shape_.vocab, batch_->tokens);
    table("bert.embeddings.position_embeddings.weight", shape_.positions, batch_->positions);
    table("bert.embeddings.token_type_embeddings.weight", shape_.segments, batch_->segments);
  }
  Values layer_backward(std::size_t l, const Values& dy) {
    const Layer& layer = layers_[l];
    const std::size_t h = shape_.hidden;
    Values dz = norm_backward(scope(l) + "output.LayerNorm", dy, layer.output_norm);
    Values dinner =
        linear_backward(scope(l) + "output.dense", reference::masked(dz, layer.output_norm.mask), layer.after_gelu, shape_.intermediate, h);
    for (std::size_t i = 0; i < dinner.size(); ++i) dinner[i] *= reference::gelu_slope(layer.before_gelu[i]);
    accumulate(dz, linear_backward(scope(l) + "intermediate.dense", dinner, layer.attended, h, shape_.intermediate));
    Values dx = norm_backward(scope(l) + "attention.output.LayerNorm", dz, layer.attention_norm);
    const Values dcontext =
        linear_backward(scope(l) + "attention.output.dense", reference::masked(dx, layer.attention_norm.mask), layer.attention.out, h, h);
    const auto dqkv = reference::attention_backward<double>(attention_batch(l), layer.qkv, layer.attention, dcontext);
    accumulate(dx, linear_backward(scope(l) + "attention.self.query", dqkv.dquery, layer.x, h, h));
    accumulate(dx, linear_backward(scope(l) + "attention.self.key", dqkv.dkey, layer.x, h, h));
    accumulate(dx, linear_backward(scope(l) + "attention.self.value", dqkv.dvalue, layer.x, h, h));
    return dx;
  }
  static void accumulate(Values& sum, const Values& term) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
  }

  ReferenceShape shape_;
  const NamedValues& w_;
  const ReferenceBatch* batch_ = nullptr;
  const ReferencePass* pass_ = nullptr;
  Norm embeddings_;
  std::vector<Layer> layers_;
  ReferenceLoss result_;
};

}  // namespace flashbert::testing
