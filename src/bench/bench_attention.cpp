#include "bench/bench_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/random_tensor.h"

namespace flashbert {

std::vector<BenchRow> bench_attention(const BenchOptions& options, const AttentionBenchOptions& shape) {
  const Backend backend = bench_backend(options);
  Ops& ops = *backend.ops;
  double peak = peak_flops(backend);
  const std::int64_t tokens = shape.batch * shape.seq_len;
  const Shape heads = {tokens, shape.heads, shape.head_dim};
  const RandomTensor qkv(*backend.context, backend.compute, {tokens, 3 * shape.heads * shape.head_dim}, 1.0F);
  const RandomTensor dqkv(*backend.context, backend.compute, {tokens, 3 * shape.heads * shape.head_dim}, 1.0F);
  const RandomTensor out(*backend.context, backend.compute, heads, 1.0F);
  const RandomTensor dout(*backend.context, backend.compute, heads, 1.0F);
  const RandomTensor lse(*backend.context, Dtype::kF32, {shape.heads, tokens}, 0.0F);
  const RandomTensor keep(*backend.context, Dtype::kU32, {tokens, shape.heads, keep_words(shape.seq_len)}, 0.0F);
  const RandomTensor cu(*backend.context, Dtype::kI32, {shape.batch + 1}, 0.0F);
  const RandomTensor position(*backend.context, Dtype::kI32, {tokens}, 0.0F);
  const RandomTensor sample(*backend.context, Dtype::kU64, {shape.batch}, 0.0F);
  std::vector<std::int32_t> offsets(static_cast<std::size_t>(shape.batch) + 1);
  for (std::size_t b = 0; b < offsets.size(); ++b) offsets[b] = static_cast<std::int32_t>(static_cast<std::int64_t>(b) * shape.seq_len);
  backend.context->write(cu.tensor(), offsets.data());
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  for (std::size_t t = 0; t < positions.size(); ++t) positions[t] = static_cast<std::int32_t>(static_cast<std::int64_t>(t) % shape.seq_len);
  backend.context->write(position.tensor(), positions.data());
  const std::int64_t width = shape.heads * shape.head_dim;
  const auto part = [&](const RandomTensor& packed, std::int64_t i) {
    return packed.tensor().columns(i * width, width).split_columns(shape.heads, shape.head_dim);
  };
  const AttentionInputs inputs = {.query = part(qkv, 0),
                                  .key = part(qkv, 1),
                                  .value = part(qkv, 2),
                                  .cu_queries = cu.tensor(),
                                  .cu_keys = cu.tensor(),
                                  .query_position = position.tensor(),
                                  .sample_index = sample.tensor(),
                                  .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                                  .dropout = {.rate = shape.dropout, .seed = 1, .layer = 0, .site = DropoutSite::kAttention}};
  const double square = static_cast<double>(tokens) * static_cast<double>(shape.seq_len) * static_cast<double>(width);
  const double forward = time_median(options.seconds, [&] {
    ops.attention_forward({.out = out.tensor(), .lse = lse.tensor(), .keep_bits = keep.tensor(), .inputs = inputs});
  });
  const double backward = time_median(options.seconds, [&] {
    ops.attention_backward({.dquery = part(dqkv, 0),
                            .dkey = part(dqkv, 1),
                            .dvalue = part(dqkv, 2),
                            .dout = dout.tensor(),
                            .out = out.tensor(),
                            .lse = lse.tensor(),
                            .keep_bits = keep.tensor(),
                            .inputs = inputs});
  });
  peak = std::max(peak, peak_flops(backend));
  return {{"peak", {{"gflops", peak * 1e-9}}},
          product_row("forward", forward, 4.0 * square, peak),
          product_row("backward", backward, 10.0 * square, peak),
          product_row("both", forward + backward, 14.0 * square, peak)};
}

}  // namespace flashbert
