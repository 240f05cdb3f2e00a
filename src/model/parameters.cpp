#include "model/parameters.h"

#include <array>
#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "model/row_capacity.h"

namespace flashbert {
namespace {

constexpr double kInitialDeviation = 0.02;
constexpr double kTruncation = 2.0;  // in deviations
// Keeps start values apart from dropout's use of the same seed.
constexpr std::uint64_t kInitialDomain = 0x9d6c'5f1e'2b37'a481ULL;

/// One truncated normal value: Box-Muller on Philox words; the next draw is tried while the value lies outside the cut.
float truncated_normal(std::uint64_t seed, std::uint32_t parameter, std::uint64_t element) {
  const Philox::Key key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (std::uint32_t draw = 0;; ++draw) {
    const auto words =
        Philox::random({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(element >> 32), parameter, draw}, key);
    const double radius = std::sqrt(-2.0 * std::log((words[0] + 0.5) * 0x1p-32));
    const double value = radius * std::cos(2.0 * std::numbers::pi * (words[1] + 0.5) * 0x1p-32);
    if (std::abs(value) < kTruncation) return static_cast<float>(value * kInitialDeviation);
  }
}

}  // namespace

std::vector<LinearShape> linear_shapes(const BertConfig& config, Dtype compute, const RowCapacity& rows, Parameters::Use use) {
  std::vector<LinearShape> shapes;
  const auto add = [&](std::int64_t in, std::int64_t out, std::int64_t max_rows) {
    shapes.push_back(
        {.in = in, .out = out, .max_rows = bucket_rows(max_rows), .compute = compute, .training = use == Parameters::Use::kTraining});
  };
  const std::int64_t hidden = config.hidden;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer == config.layers - 1;
    const std::int64_t layer_rows = last ? rows.head_rows() : rows.tokens;
    if (last) {
      add(hidden, hidden, layer_rows);
      add(hidden, 2 * hidden, rows.tokens);
    } else {
      add(hidden, 3 * hidden, layer_rows);
    }
    add(hidden, hidden, layer_rows);
    add(hidden, config.intermediate, layer_rows);
    add(config.intermediate, hidden, layer_rows);
  }
  add(hidden, hidden, rows.sequences);
  add(hidden, 2, rows.sequences);
  add(hidden, hidden, rows.masked);
  add(hidden, config.padded_vocab(), rows.masked);
  return shapes;
}

Parameters::Parameters(const BertConfig& config, Dtype compute, Use use, const Ops& ops, const std::vector<LinearShape>& linears,
                       ArenaPlan& plan)
    : config_(config), table_(config), compute_(compute), use_(use) {
  const auto book_all = [&](const char* group, Dtype dtype, bool matrices_only) {
    std::vector<BufferId> ids;
    for (const ParameterBlock& block : table_.blocks()) {
      ids.push_back(matrices_only && !block.matrix ? BufferId{} : plan.book(group, block.name, dtype, block.shape));
    }
    return ids;
  };
  master_ids_ = book_all("weights", Dtype::kF32, false);
  if (use == Use::kTraining) {
    gradient_ids_ = book_all("gradients", Dtype::kF32, false);
    moment_ids_ = book_all("optimizer", Dtype::kF32, false);
    variance_ids_ = book_all("optimizer", Dtype::kF32, false);
  }
  if (compute != Dtype::kF32) compute_ids_ = book_all("copies", compute, true);
  for (const LinearShape& shape : linears) {
    const std::int64_t bytes = ops.linear_pack_bytes(shape);
    pack_ids_.push_back(bytes == 0 ? BufferId{} : plan.book("copies", "packed", Dtype::kU8, {bytes}));
  }
}

void Parameters::bind(const Arena& arena) {
  const auto fetch = [&](const std::vector<BufferId>& ids) {
    std::vector<Tensor> tensors;
    tensors.reserve(ids.size());
    for (const BufferId id : ids) tensors.push_back(id.index < 0 ? Tensor{} : arena.tensor(id));
    return tensors;
  };
  masters_ = fetch(master_ids_);
  gradients_ = fetch(gradient_ids_);
  moments_ = fetch(moment_ids_);
  variances_ = fetch(variance_ids_);
  computes_ = compute_ == Dtype::kF32 ? masters_ : fetch(compute_ids_);
  packs_ = fetch(pack_ids_);
  bind_linears();
  if (use_ == Use::kInference) return;
  for (std::size_t i = 0; i < table_.parameters().size(); ++i) {
    const ParameterInfo& info = table_.parameters()[i];
    const Tensor gradient = slice(gradients_, i);
    lamb_.push_back({.weight = slice(masters_, i),
                     .m = slice(moments_, i),
                     .v = slice(variances_, i),
                     .compute = compute_ != Dtype::kF32 && table_.blocks()[info.block].matrix ? slice(computes_, i) : Tensor{},
                     .gradient = gradient,
                     .decay = info.decay});
    gradient_views_.push_back(gradient);
  }
  const auto* const first = static_cast<const char*>(gradients_.front().raw());
  const auto* const end = static_cast<const char*>(gradients_.back().raw()) + gradients_.back().bytes();
  all_gradients_ = Tensor(gradients_.front().raw(), Dtype::kF32, {(end - first) / static_cast<std::int64_t>(sizeof(float))});
}

Tensor Parameters::slice(const std::vector<Tensor>& blocks, std::size_t index) const {
  const ParameterInfo& info = table_.parameters()[index];
  return blocks[info.block].rows(info.block_row, info.shape[0]);
}

LinearLayer Parameters::make_linear(std::size_t weight, std::size_t bias, std::int64_t row, std::int64_t rows, std::size_t pack) const {
  LinearLayer layer;
  layer.weights = {.weight = computes_[weight].rows(row, rows), .pack = packs_[pack]};
  layer.bias = masters_[bias].rows(row, rows);
  if (use_ == Use::kTraining) {
    layer.dweight = gradients_[weight].rows(row, rows);
    layer.dbias = gradients_[bias].rows(row, rows);
  }
  return layer;
}

void Parameters::bind_linears() {
  const std::int64_t hidden = config_.hidden;
  std::size_t pack = 0;
  const auto add = [&](std::size_t weight, std::size_t bias, std::int64_t row, std::int64_t rows) {
    LinearLayer layer = make_linear(weight, bias, row, rows, pack++);
    if (layer.weights.pack) packed_.push_back(layer.weights);
    return layer;
  };
  for (std::size_t i = 0; i < table_.layers.size(); ++i) {
    const LayerBlocks& blocks = table_.layers[i];
    LayerLinears layer;
    if (i + 1 == table_.layers.size()) {
      layer.query = add(blocks.qkv_weight, blocks.qkv_bias, 0, hidden);
      layer.key_value = add(blocks.qkv_weight, blocks.qkv_bias, hidden, 2 * hidden);
    } else {
      layer.qkv = add(blocks.qkv_weight, blocks.qkv_bias, 0, 3 * hidden);
    }
    layer.attention_output = add(blocks.output_weight, blocks.output_bias, 0, hidden);
    layer.up = add(blocks.up_weight, blocks.up_bias, 0, config_.intermediate);
    layer.down = add(blocks.down_weight, blocks.down_bias, 0, hidden);
    layers_.push_back(layer);
  }
  pooler = add(table_.pooler_weight, table_.pooler_bias, 0, hidden);
  nsp = add(table_.nsp_weight, table_.nsp_bias, 0, 2);
  transform = add(table_.transform_weight, table_.transform_bias, 0, hidden);
  decoder = add(table_.word, table_.decoder_bias, 0, config_.padded_vocab());
}

void Parameters::initialise(Ops& ops, std::uint64_t seed) {
  std::vector<float> values;
  for (std::size_t index = 0; index < table_.parameters().size(); ++index) {
    const ParameterInfo& info = table_.parameters()[index];
    const std::int64_t elements = info.shape.elements();
    values.assign(static_cast<std::size_t>(elements), info.initial == InitialValue::kOne ? 1.0F : 0.0F);
    if (info.initial == InitialValue::kTruncatedNormal) {
#pragma omp parallel for schedule(static)
      for (std::int64_t i = 0; i < elements; ++i) {
        values[static_cast<std::size_t>(i)] =
            truncated_normal(seed ^ kInitialDomain, static_cast<std::uint32_t>(index), static_cast<std::uint64_t>(i));
      }
    }
    ops.context().write(slice(masters_, index), values.data());
  }
  refresh(ops);
}

void Parameters::refresh(Ops& ops) {
  if (compute_ != Dtype::kF32) {
    for (std::size_t block = 0; block < computes_.size(); ++block) {
      if (computes_[block]) ops.cast({.to = computes_[block], .from = masters_[block]});
    }
  }
  refresh_packs(ops);
}

void Parameters::refresh_packs(Ops& ops) {
  for (const LinearWeights& weights : packed_) ops.linear_pack({.weights = weights});
}

}  // namespace flashbert
