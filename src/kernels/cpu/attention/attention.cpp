#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/rounding.h"
#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows/dispatch.h"

namespace flashbert::cpu {
namespace {

const AttentionKernels& attention_kernels(const CpuContext& context) {
  switch (context.isa()) {
    case Isa::kAvx512Bf16:
      return kAttentionAvx512Bf16;
    case Isa::kAvx512:
      return kAttentionAvx512;
    default:
      return kAttentionAvx2;
  }
}

/// Bytes one thread needs for a (sequence, head) of these sizes: a bound over all instruction sets of what the pass cuts, a multiple of a
/// cache line.
enum class AttentionPass { kForward, kBackward };
std::int64_t thread_scratch_bytes(AttentionPass pass, std::int64_t queries, std::int64_t head_dim) {
  constexpr std::int64_t kSlackFloats = 8192;  // small tiles, padding of pieces
  const std::int64_t width = round_up(head_dim, 16);
  const std::int64_t forward = kKeyBlock * (head_dim + width + 16) + 16 * head_dim;
  const std::int64_t backward =
      kBackwardKeys * (2 * head_dim + 3 * width + 3 * kMostBackwardRows) + 2 * kMostBackwardRows * (width + head_dim);
  const std::int64_t floats = (pass == AttentionPass::kForward ? forward : backward) + queries * (width + 2) + kSlackFloats;
  return round_up(floats * static_cast<std::int64_t>(sizeof(float)), 64);
}

/// The (sequence, head) pairs of a batch, longest sequence first so that no thread is left with a long one at the end.
struct WorkList {
  std::int32_t* sequences;
  std::int64_t count;
};
WorkList order_by_length(const AttentionInputs& in, std::byte* memory) {
  const auto* const cu_queries = in.cu_queries.data<std::int32_t>();
  const auto* const cu_keys = in.cu_keys.data<std::int32_t>();
  const std::int64_t count = in.cu_queries.extent(0) - 1;
  auto* const sequences = reinterpret_cast<std::int32_t*>(memory);
  for (std::int64_t i = 0; i < count; ++i) sequences[i] = static_cast<std::int32_t>(i);
  const auto work = [&](std::int32_t s) {
    return static_cast<std::int64_t>(cu_queries[s + 1] - cu_queries[s]) * (cu_keys[s + 1] - cu_keys[s]);
  };
  std::sort(sequences, sequences + count, [&](std::int32_t a, std::int32_t b) { return work(a) != work(b) ? work(a) > work(b) : a < b; });
  return {sequences, count};
}

template <class Pointer>
Pointer element(Pointer base, Dtype dtype, std::int64_t index) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const std::byte, std::byte>;
  return static_cast<Byte*>(base) + index * static_cast<std::int64_t>(size_of(dtype));
}

/// First element of head `head` in row `row` of a (rows, heads, head_dim) view.
template <class TensorType>
auto head_row(const TensorType& tensor, std::int64_t row, std::int64_t head) {
  return element(tensor.raw(), tensor.dtype(), row * tensor.row_stride() + head * tensor.extent(2));
}

struct ItemPlace {
  std::int64_t query_row, queries, key_row, keys;
};
ItemPlace place_of(const AttentionInputs& in, std::int32_t sequence) {
  const auto* const cu_queries = in.cu_queries.data<std::int32_t>();
  const auto* const cu_keys = in.cu_keys.data<std::int32_t>();
  return {cu_queries[sequence], cu_queries[sequence + 1] - cu_queries[sequence], cu_keys[sequence],
          cu_keys[sequence + 1] - cu_keys[sequence]};
}

AttentionItem make_item(const AttentionInputs& in, std::int32_t sequence, std::int64_t head) {
  const ItemPlace place = place_of(in, sequence);
  AttentionItem item{.query = head_row(in.query, place.query_row, head),
                     .key = head_row(in.key, place.key_row, head),
                     .value = head_row(in.value, place.key_row, head),
                     .query_stride = in.query.row_stride(),
                     .key_stride = in.key.row_stride(),
                     .value_stride = in.value.row_stride(),
                     .queries = place.queries,
                     .keys = place.keys,
                     .head_dim = in.query.extent(2),
                     .scale = in.scale};
  if (in.dropout.active()) {
    const Philox::Counter counter =
        in.dropout.counter(in.sample_index.data<std::uint64_t>()[sequence], static_cast<std::uint32_t>(head), 0, 0);
    const Philox::Key key = in.dropout.key();
    item.threshold = in.dropout.threshold();
    item.key0 = key[0];
    item.key1 = key[1];
    item.counter0 = counter[0];
    item.counter1 = counter[1];
    item.counter2 = counter[2];
    item.keep_scale = in.dropout.keep_scale();
    item.query_position = in.query_position.data<std::int32_t>() + place.query_row;
  }
  return item;
}

void set_row_data(AttentionItem& item, const AttentionInputs& in, std::int64_t query_row, std::int64_t head, const ConstTensor& lse,
                  const ConstTensor& keep_bits) {
  const std::int64_t heads = in.query.extent(1);
  item.lse = const_cast<float*>(lse.data<float>()) + head * lse.row_stride() + query_row;
  if (!in.dropout.active()) return;
  item.keep_stride = heads * keep_bits.extent(2);
  item.keep = const_cast<std::uint32_t*>(keep_bits.data<std::uint32_t>()) + query_row * item.keep_stride + head * keep_bits.extent(2);
}

void zero_rows(const Tensor& tensor, std::int64_t begin) {
  const auto bytes = static_cast<std::size_t>(tensor.shape().row_elements()) * size_of(tensor.dtype());
  for (std::int64_t row = begin; row < tensor.extent(0); ++row) std::memset(row_of(tensor, row), 0, bytes);
}

/// An item without keys (forward: out 0, lse +inf) or without queries (backward: dk and dv 0).
void zero_head(const Tensor& tensor, std::int64_t begin, std::int64_t rows, std::int64_t head) {
  const auto bytes = static_cast<std::size_t>(tensor.extent(2)) * size_of(tensor.dtype());
  for (std::int64_t row = begin; row < begin + rows; ++row) std::memset(head_row(tensor, row, head), 0, bytes);
}

/// Runs f(sequence, head, scratch) for every item, shared among threads; each item writes only its own rows, so the result does not
/// depend on who runs it.
template <class Function>
void for_items(const AttentionInputs& in, const CpuContext& context, std::byte* memory, std::int64_t bytes_per_thread, const Function& f) {
  const std::int64_t list_bytes = round_up(in.cu_queries.extent(0) * static_cast<std::int64_t>(sizeof(std::int32_t)), 64);
  const WorkList list = order_by_length(in, memory);
  const std::int64_t heads = in.query.extent(1);
  std::byte* const thread_memory = memory + list_bytes;
#pragma omp parallel num_threads(context.threads())
  {
    std::byte* const own = thread_memory + omp_get_thread_num() * bytes_per_thread;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t item = 0; item < list.count * heads; ++item) f(list.sequences[item / heads], item % heads, own);
  }
}

/// Checks what the contract says of lengths, which only a backend can see; returns the most query rows of a sequence.
std::int64_t checked_longest_query(const AttentionInputs& in, const ConstTensor& keep_bits) {
  constexpr std::int64_t kMostKeys = 65535;  // a key's number is 16 bits of a dropout counter
  std::int64_t longest = 0;
  for (std::int32_t s = 0; s + 1 < static_cast<std::int32_t>(in.cu_queries.extent(0)); ++s) {
    const ItemPlace place = place_of(in, s);
    check<ShapeError>(place.queries >= 0 && place.keys >= 0 && place.query_row + place.queries <= in.query.extent(0) &&
                          place.key_row + place.keys <= in.key.extent(0),
                      "attention: sequence {} has query rows {} to {} of {} and key rows {} to {} of {}", s, place.query_row,
                      place.query_row + place.queries, in.query.extent(0), place.key_row, place.key_row + place.keys, in.key.extent(0));
    check<ShapeError>(place.keys <= kMostKeys, "attention: sequence {} has {} keys; at most {} are possible", s, place.keys, kMostKeys);
    check<ShapeError>(!in.dropout.active() || keep_words(place.keys) <= keep_bits.extent(2),
                      "attention: keep_bits holds {} words a row, sequence {} with {} keys needs {}", keep_bits.extent(2), s, place.keys,
                      keep_words(place.keys));
    longest = std::max(longest, place.queries);
  }
  return longest;
}

std::int64_t total_scratch(std::int64_t sequences, std::int64_t bytes_per_thread, int threads) {
  return (sequences + 2) * 64 + bytes_per_thread * threads;
}

}  // namespace

void CpuOps::do_attention_forward(const AttentionForward& args) {
  const AttentionInputs& in = args.inputs;
  const std::int64_t sequences = in.cu_queries.extent(0) - 1;
  const std::int64_t bytes_per_thread =
      thread_scratch_bytes(AttentionPass::kForward, checked_longest_query(in, args.keep_bits), in.query.extent(2));
  std::byte* const memory = scratch("attention_forward", total_scratch(sequences, bytes_per_thread, context().threads()));
  const auto kernel = attention_kernels(context()).forward[type_index(in.query.dtype())];
  for_items(in, context(), memory, bytes_per_thread, [&](std::int32_t sequence, std::int64_t head, void* own) {
    AttentionItem item = make_item(in, sequence, head);
    const ItemPlace place = place_of(in, sequence);
    set_row_data(item, in, place.query_row, head, args.lse, args.keep_bits);
    if (item.keys == 0) {
      zero_head(args.out, place.query_row, place.queries, head);
      std::fill_n(item.lse, item.queries, std::numeric_limits<float>::infinity());
      return;
    }
    item.out = head_row(args.out, place.query_row, head);
    item.out_stride = args.out.row_stride();
    kernel(item, own);
  });
  const std::int64_t used = in.cu_queries.data<std::int32_t>()[sequences];
  zero_rows(args.out, used);
  const Tensor tail = args.lse.columns(used, args.lse.extent(1) - used);
  zero_rows(tail, 0);
}

void CpuOps::do_attention_backward(const AttentionBackward& args) {
  const AttentionInputs& in = args.inputs;
  const std::int64_t sequences = in.cu_queries.extent(0) - 1;
  const std::int64_t bytes_per_thread =
      thread_scratch_bytes(AttentionPass::kBackward, checked_longest_query(in, args.keep_bits), in.query.extent(2));
  std::byte* const memory = scratch("attention_backward", total_scratch(sequences, bytes_per_thread, context().threads()));
  const auto kernel = attention_kernels(context()).backward[type_index(in.query.dtype())];
  for_items(in, context(), memory, bytes_per_thread, [&](std::int32_t sequence, std::int64_t head, void* own) {
    AttentionItem item = make_item(in, sequence, head);
    const ItemPlace place = place_of(in, sequence);
    if (item.keys == 0 || item.queries == 0) {
      zero_head(args.dquery, place.query_row, place.queries, head);
      zero_head(args.dkey, place.key_row, place.keys, head);
      zero_head(args.dvalue, place.key_row, place.keys, head);
      return;
    }
    set_row_data(item, in, place.query_row, head, args.lse, args.keep_bits);
    item.out = const_cast<void*>(head_row(args.out, place.query_row, head));
    item.out_stride = args.out.row_stride();
    item.dout = head_row(args.dout, place.query_row, head);
    item.dout_stride = args.dout.row_stride();
    item.dquery = head_row(args.dquery, place.query_row, head);
    item.dkey = head_row(args.dkey, place.key_row, head);
    item.dvalue = head_row(args.dvalue, place.key_row, head);
    item.dquery_stride = args.dquery.row_stride();
    item.dkey_stride = args.dkey.row_stride();
    item.dvalue_stride = args.dvalue.row_stride();
    kernel(item, own);
  });
  zero_rows(args.dquery, in.cu_queries.data<std::int32_t>()[sequences]);
  const std::int64_t keys_used = in.cu_keys.data<std::int32_t>()[sequences];
  zero_rows(args.dkey, keys_used);
  zero_rows(args.dvalue, keys_used);
}

std::int64_t attention_scratch_bytes(const OpsPlan& plan, const CpuContext& context) {
  const std::int64_t sequences = plan.max_tokens;  // at least one token each, as far as the plan knows
  if (sequences == 0) return 0;
  const std::int64_t queries = plan.max_seq_len;
  const std::int64_t forward = thread_scratch_bytes(AttentionPass::kForward, queries, plan.head_dim);
  const std::int64_t backward = plan.training ? thread_scratch_bytes(AttentionPass::kBackward, queries, plan.head_dim) : 0;
  return total_scratch(sequences, std::max(forward, backward), context.threads());
}

}  // namespace flashbert::cpu
