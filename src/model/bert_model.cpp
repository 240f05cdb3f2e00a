#include "model/bert_model.h"

namespace flashbert {
namespace {

BackwardBuffers book_backward(const BertConfig& config, Dtype compute, const RowCapacity& capacity, ArenaPlan& plan) {
  const auto book = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return plan.book("backward", name, compute, {bucket_rows(rows), columns});
  };
  return {.gradient = book("gradient", capacity.tokens, config.hidden),
          .branch = book("branch", capacity.tokens, config.hidden),
          .context = book("context", capacity.tokens, config.hidden),
          .query_key_value = book("query_key_value", capacity.tokens, 3 * config.hidden),
          .intermediate = book("intermediate", capacity.tokens, config.intermediate),
          .head_gradient = book("head_gradient", capacity.head_rows(), config.hidden)};
}

}  // namespace

OpsPlan ops_plan(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use) {
  OpsPlan plan{.linears = linear_shapes(config, compute, capacity, use),
               .training = use == Parameters::Use::kTraining,
               .max_tokens = bucket_rows(capacity.tokens),
               .max_seq_len = capacity.seq_len,
               .head_dim = config.head_dim(),
               .hidden = config.hidden,
               .max_logit_rows = bucket_rows(capacity.masked),
               .parameter_elements = {}};
  if (!plan.training) return plan;
  const ParameterTable table(config);
  for (const ParameterInfo& parameter : table.parameters()) plan.parameter_elements.push_back(parameter.shape.elements());
  return plan;
}

BertModel::BertModel(const BertConfig& config, Dtype compute, const RowCapacity& capacity, Parameters::Use use, Ops& ops, ArenaPlan& plan)
    : config_(config),
      parameters_(config, compute, use, ops, linear_shapes(config, compute, capacity, use), plan),
      embeddings_({config, capacity, compute, plan}),
      heads_({config, capacity, compute, plan}) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer == config.layers - 1;
    layers_.emplace_back(ActivationPlan{config, capacity, compute, plan}, layer, last ? LayerRows::kHeadRows : LayerRows::kAllTokens);
  }
  if (use == Parameters::Use::kTraining) backward_ = book_backward(config, compute, capacity, plan);
  const auto counters = [&](const std::string& loss) {
    return LossCounterIds{.nll_sum = plan.book("batch", loss + "_nll", Dtype::kF64, {1}),
                          .correct = plan.book("batch", loss + "_correct", Dtype::kI64, {1}),
                          .counted = plan.book("batch", loss + "_counted", Dtype::kI64, {1})};
  };
  mlm_ = counters("mlm");
  nsp_ = counters("nsp");
}

void BertModel::bind(const Arena& arena) {
  arena_ = &arena;
  parameters_.bind(arena);
}

LossSums BertModel::sums() const {
  const auto counters = [&](const LossCounterIds& ids) {
    return LossCounters{
        .nll_sum = arena_->tensor(ids.nll_sum), .correct = arena_->tensor(ids.correct), .counted = arena_->tensor(ids.counted)};
  };
  return {.mlm = counters(mlm_), .nsp = counters(nsp_)};
}

void BertModel::zero_sums(Ops& ops) {
  const LossSums all = sums();
  for (const LossCounters& counters : {all.mlm, all.nsp}) {
    ops.fill_zero(counters.nll_sum);
    ops.fill_zero(counters.correct);
    ops.fill_zero(counters.counted);
  }
}

void BertModel::forward(const Pass& pass) {
  ConstTensor x = embeddings_.forward(pass);
  for (EncoderLayer& layer : layers_) x = layer.forward(pass, x);
  heads_.forward(pass, x, sums());
}

void BertModel::backward(const Pass& pass) {
  Tensor gradient = pass.memory(backward_.head_gradient, pass.batch.head_rows.count());
  heads_.backward(pass, gradient);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) gradient = layer->backward(pass, gradient, backward_);
  embeddings_.backward(pass, gradient);
}

}  // namespace flashbert
