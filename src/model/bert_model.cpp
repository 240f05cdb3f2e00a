#include "model/bert_model.h"

namespace flashbert {

OpsPlan ops_plan(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use) {
  OpsPlan plan{.linears = linear_shapes(config, compute, capacity, use),
               .compute = compute,
               .max_tokens = bucket_rows(capacity.tokens),
               .max_seq_len = capacity.seq_len,
               .heads = config.heads,
               .head_dim = config.head_dim(),
               .hidden = config.hidden,
               .intermediate = config.intermediate,
               .max_logit_rows = bucket_rows(capacity.masked),
               .padded_vocab = config.padded_vocab(),
               .parameter_elements = {}};
  const ParameterTable table(config);
  for (const ParameterInfo& parameter : table.parameters()) plan.parameter_elements.push_back(parameter.shape.elements());
  return plan;
}

BertModel::BertModel(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use, Ops& ops, ArenaPlan& plan)
    : config_(config),
      use_(use),
      parameters_(config, compute, use, ops, linear_shapes(config, compute, capacity, use), plan),
      embeddings_(config, compute, capacity, plan),
      heads_(config, compute, capacity, plan) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer == config.layers - 1;
    attention_.emplace_back(config, layer, last ? SelfAttention::Rows::kHeadRows : SelfAttention::Rows::kAllTokens, compute, capacity,
                            plan);
    feed_forward_.emplace_back(config, layer, last ? capacity.head_rows() : capacity.tokens, compute, plan);
  }
  inputs_.resize(static_cast<std::size_t>(config.layers));
  attended_.resize(static_cast<std::size_t>(config.layers));
  if (use == Parameters::Use::kTraining) {
    const std::int64_t tokens = bucket_rows(capacity.tokens);
    const auto book = [&](const char* name, std::int64_t rows, std::int64_t columns) {
      return plan.book("backward", name, compute, {rows, columns});
    };
    gradient_id_ = book("gradient", tokens, config.hidden);
    branch_id_ = book("branch", tokens, config.hidden);
    context_id_ = book("context", tokens, config.hidden);
    qkv_id_ = book("qkv", tokens, 3 * config.hidden);
    intermediate_id_ = book("intermediate", tokens, config.intermediate);
    head_gradient_id_ = book("head_gradient", bucket_rows(capacity.head_rows()), config.hidden);
  }
  mlm_nll_id_ = plan.book("batch", "mlm_nll", Dtype::kF64, {1});
  mlm_correct_id_ = plan.book("batch", "mlm_correct", Dtype::kI64, {1});
  mlm_counted_id_ = plan.book("batch", "mlm_counted", Dtype::kI64, {1});
  nsp_nll_id_ = plan.book("batch", "nsp_nll", Dtype::kF64, {1});
  nsp_correct_id_ = plan.book("batch", "nsp_correct", Dtype::kI64, {1});
  nsp_counted_id_ = plan.book("batch", "nsp_counted", Dtype::kI64, {1});
}

void BertModel::bind(const Arena& arena) {
  parameters_.bind(arena);
  embeddings_.bind(arena);
  for (SelfAttention& layer : attention_) layer.bind(arena);
  for (FeedForward& layer : feed_forward_) layer.bind(arena);
  heads_.bind(arena);
  if (use_ == Parameters::Use::kTraining) {
    backward_ = {.gradient = arena.tensor(gradient_id_),
                 .branch = arena.tensor(branch_id_),
                 .context = arena.tensor(context_id_),
                 .qkv = arena.tensor(qkv_id_),
                 .intermediate = arena.tensor(intermediate_id_),
                 .head_gradient = arena.tensor(head_gradient_id_)};
  }
  sums_ = {.mlm = {arena.tensor(mlm_nll_id_), arena.tensor(mlm_correct_id_), arena.tensor(mlm_counted_id_)},
           .nsp = {arena.tensor(nsp_nll_id_), arena.tensor(nsp_correct_id_), arena.tensor(nsp_counted_id_)}};
}

void BertModel::zero_sums(Ops& ops) {
  for (const LossCounters& counters : {sums_.mlm, sums_.nsp}) {
    ops.fill_zero(counters.nll_sum);
    ops.fill_zero(counters.correct);
    ops.fill_zero(counters.counted);
  }
}

RowOrigin BertModel::layer_origin(const Pass& pass, std::size_t layer) const {
  const bool last = layer + 1 == attention_.size();
  return {.sequence = last ? pass.batch.head_sequences : pass.batch.sequences,
          .position = last ? pass.batch.head_positions : pass.batch.positions,
          .sample_index = pass.batch.sample_indices};
}

void BertModel::forward(const Pass& pass) {
  ConstTensor x = embeddings_.forward(pass);
  for (std::size_t layer = 0; layer < attention_.size(); ++layer) {
    inputs_[layer] = x;
    attended_[layer] = attention_[layer].forward(pass, x);
    x = feed_forward_[layer].forward(pass, attended_[layer], layer_origin(pass, layer));
  }
  heads_.forward(pass, x, sums_);
}

void BertModel::backward(const Pass& pass) {
  const Tensor gradient = backward_.gradient.rows(0, pass.batch.tokens());
  const Tensor head_gradient = backward_.head_gradient.rows(0, pass.batch.head_rows());
  heads_.backward(pass, head_gradient);
  for (std::size_t layer = attention_.size(); layer-- > 0;) {
    const Tensor at_rows = layer + 1 == attention_.size() ? head_gradient : gradient;
    feed_forward_[layer].backward(pass, attended_[layer], at_rows, backward_);
    attention_[layer].backward(pass, inputs_[layer], at_rows, gradient, backward_);
  }
  embeddings_.backward(pass, gradient);
}

}  // namespace flashbert
