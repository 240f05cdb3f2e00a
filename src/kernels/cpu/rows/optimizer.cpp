#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows/dispatch.h"

namespace flashbert::cpu {
namespace {

std::int64_t chunks_of(std::int64_t elements) { return (elements + kNormChunk - 1) / kNormChunk; }

/// Calls f(tensor, chunk, place) for every chunk of every tensor, places counted through; shared among threads, in memory order. The
/// tensors' first places are in `first` (count + 1 entries).
template <class Function>
void for_chunks(const CpuContext& context, const std::int64_t* first, std::int64_t count, const Function& f) {
  const std::int64_t total = first[count];
#pragma omp parallel for num_threads(context.threads()) schedule(static) if (total > 1)
  for (std::int64_t place = 0; place < total; ++place) {
    const std::int64_t tensor = std::upper_bound(first, first + count + 1, place) - first - 1;
    f(tensor, place - first[tensor], place);
  }
}

struct Squares {
  double weight = 0.0, update = 0.0;
};

/// Scratch of both ops: first place of each tensor, then one entry a chunk.
struct ChunkScratch {
  std::int64_t* first;
  Squares* squares;
};
std::int64_t scratch_bytes(std::int64_t tensors, std::int64_t chunks) {
  return ((tensors + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)) + 63) / 64 * 64 +
         chunks * static_cast<std::int64_t>(sizeof(Squares));
}
ChunkScratch split_scratch(std::byte* scratch, std::int64_t tensors) {
  return {reinterpret_cast<std::int64_t*>(scratch), reinterpret_cast<Squares*>(scratch + scratch_bytes(tensors, 0))};
}

}  // namespace

void CpuOps::do_global_norm(const GlobalNorm& args) {
  const RowKernels& kernels = row_kernels(context());
  const auto count = static_cast<std::int64_t>(args.tensors.size());
  std::int64_t chunks = 0;
  for (const ConstTensor& tensor : args.tensors) chunks += chunks_of(tensor.elements());
  const ChunkScratch work = split_scratch(scratch("global_norm", scratch_bytes(count, chunks)), count);
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    work.first[i] = place;
    place += chunks_of(args.tensors[static_cast<std::size_t>(i)].elements());
  }
  work.first[count] = place;
  for_chunks(context(), work.first, count, [&](std::int64_t i, std::int64_t chunk, std::int64_t at) {
    const ConstTensor& tensor = args.tensors[static_cast<std::size_t>(i)];
    const std::int64_t begin = chunk * kNormChunk;
    work.squares[at].weight = kernels.sum_of_squares(tensor.data<float>() + begin, std::min(kNormChunk, tensor.elements() - begin));
  });
  double sum = 0.0;
  std::int32_t first_bad = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    double tensor_sum = 0.0;
    for (std::int64_t at = work.first[i]; at < work.first[i + 1]; ++at) tensor_sum += work.squares[at].weight;
    // Squares of finite f32 values cannot overflow a double, so a sum that is not finite means a value that is not.
    if (!std::isfinite(tensor_sum) && first_bad < 0) first_bad = static_cast<std::int32_t>(i);
    sum += tensor_sum;
  }
  const double norm = std::sqrt(sum);
  args.result.norm.data<float>()[0] = static_cast<float>(norm);
  args.result.clip_scale.data<float>()[0] =
      norm > static_cast<double>(args.clip) ? static_cast<float>(static_cast<double>(args.clip) / norm) : 1.0F;
  args.result.first_bad.data<std::int32_t>()[0] = first_bad;
}

namespace {

LambChunk lamb_chunk(const LambUpdate& args, std::int64_t index, std::int64_t chunk) {
  const LambParameter& parameter = args.parameters[static_cast<std::size_t>(index)];
  const float* const scalars = args.scalars.data<float>();
  const std::int64_t begin = chunk * kNormChunk;
  return {.weight = parameter.weight.data<float>() + begin,
          .gradient = parameter.gradient.data<float>() + begin,
          .m = parameter.m.data<float>() + begin,
          .v = parameter.v.data<float>() + begin,
          .compute = parameter.compute ? parameter.compute.data<bf16>() + begin : nullptr,
          .elements = std::min(kNormChunk, parameter.weight.elements() - begin),
          .scalars = {.clip_scale = args.clip_scale.data<float>()[0],
                      .beta1 = static_cast<float>(args.beta1),
                      .beta2 = static_cast<float>(args.beta2),
                      .one_minus_beta1 = static_cast<float>(1.0 - args.beta1),
                      .one_minus_beta2 = static_cast<float>(1.0 - args.beta2),
                      .inverse_correction1 = static_cast<float>(1.0 / static_cast<double>(scalars[kBiasCorrection1])),
                      .inverse_root_correction2 = static_cast<float>(1.0 / std::sqrt(static_cast<double>(scalars[kBiasCorrection2]))),
                      .epsilon = args.epsilon,
                      .decay = parameter.decay ? args.weight_decay : 0.0F}};
}

}  // namespace

void CpuOps::do_lamb_update(const LambUpdate& args) {
  if (args.first_bad.data<std::int32_t>()[0] >= 0) return;
  const RowKernels& kernels = row_kernels(context());
  const auto count = static_cast<std::int64_t>(args.parameters.size());
  std::int64_t chunks = 0;
  for (const LambParameter& parameter : args.parameters) chunks += chunks_of(parameter.weight.elements());
  const ChunkScratch work = split_scratch(scratch("lamb_update", scratch_bytes(count, chunks)), count);
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    work.first[i] = place;
    place += chunks_of(args.parameters[static_cast<std::size_t>(i)].weight.elements());
  }
  work.first[count] = place;
  for_chunks(context(), work.first, count, [&](std::int64_t i, std::int64_t chunk, std::int64_t at) {
    LambChunk piece = lamb_chunk(args, i, chunk);
    kernels.lamb_moments(piece);
    work.squares[at] = {piece.weight_squares, piece.update_squares};
  });
  for (std::int64_t i = 0; i < count; ++i) {
    Squares sum;
    for (std::int64_t at = work.first[i]; at < work.first[i + 1]; ++at) {
      sum.weight += work.squares[at].weight;
      sum.update += work.squares[at].update;
    }
    const double weight_norm = std::sqrt(sum.weight);
    const double update_norm = std::sqrt(sum.update);
    const bool adapts = args.parameters[static_cast<std::size_t>(i)].decay && weight_norm > 0.0 && update_norm > 0.0;
    args.weight_norm.data<float>()[i] = static_cast<float>(weight_norm);
    args.update_norm.data<float>()[i] = static_cast<float>(update_norm);
    args.trust_ratio.data<float>()[i] = adapts ? static_cast<float>(weight_norm / update_norm) : 1.0F;
  }
  const float learning_rate = args.scalars.data<float>()[kLearningRate];
  for_chunks(context(), work.first, count, [&](std::int64_t i, std::int64_t chunk, std::int64_t /*at*/) {
    LambChunk piece = lamb_chunk(args, i, chunk);
    piece.step = args.trust_ratio.data<float>()[i] * learning_rate;
    kernels.lamb_apply(piece);
  });
}

std::int64_t optimizer_scratch_bytes(const OpsPlan& plan, const CpuContext& /*context*/) {
  std::int64_t chunks = 0;
  for (const std::int64_t elements : plan.parameter_elements) chunks += chunks_of(elements);
  return scratch_bytes(static_cast<std::int64_t>(plan.parameter_elements.size()), chunks);
}

}  // namespace flashbert::cpu
