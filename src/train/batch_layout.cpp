#include "train/batch_layout.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/rounding.h"

namespace flashbert {
namespace {

/// What stands in the rows behind the true ones.
enum class Tail {
  kZero,
  kMinusOne,
  kLast,  ///< the last value again: sequences past the last are empty, their offsets repeat the total
};

using Bytes = std::span<const std::byte>;

/// One column: its values in a micro-batch, its place in the view, how many rows it has and what fills them up.
struct Column {
  std::string_view name;
  Dtype dtype;
  Bytes (*values)(const MicroBatch& batch);
  ConstTensor& (*view)(DeviceBatch& batch);
  std::int64_t (*rows)(const BatchRowCounts& counts);
  Tail tail;
};

/// Column of the table below: from a member of PackedBatch (or of one of its parts) to one of BatchView.
template <auto... Members>
Bytes values(const MicroBatch& batch) {
  return std::as_bytes(std::span((batch.packed.*....*Members)));
}
template <auto Runs>
Bytes run_count(const MicroBatch& batch) {
  return std::as_bytes(std::span(&(batch.packed.*Runs).count, 1));
}
Bytes scalars(const MicroBatch& batch) { return std::as_bytes(std::span(batch.scalars)); }
Bytes loss_divisors(const MicroBatch& batch) { return std::as_bytes(std::span(batch.loss_divisors)); }
Bytes lamb_scalars(const MicroBatch& batch) { return std::as_bytes(std::span(batch.lamb_scalars)); }
Bytes flags(const MicroBatch& batch) { return std::as_bytes(std::span(&batch.flags, 1)); }

template <auto... Members>
ConstTensor& view(DeviceBatch& batch) {
  return (batch.view.*....*Members);
}
template <auto Member>
ConstTensor& beside(DeviceBatch& batch) {
  return batch.*Member;
}

using Counts = BatchRowCounts;
template <auto Member>
std::int64_t rows(const Counts& counts) {
  return counts.*Member;
}
template <auto Member>
std::int64_t ends(const Counts& counts) {
  return counts.*Member + 1;
}
template <std::int64_t Rows>
std::int64_t always(const Counts& /*counts*/) {
  return Rows;
}

using P = PackedBatch;
using V = BatchView;
using R = SortedRuns;
using S = RowSet;
using W = RunsView;
constexpr Dtype kIds = Dtype::kI32;
constexpr Dtype kIndices = Dtype::kU64;

// The one list of columns. A new one is a member of PackedBatch, a member of BatchView and a row here.
constexpr Column kColumns[] = {
    // clang-format off
    {"token_ids",       kIds,     values<&P::token_ids>,                 view<&V::token_ids>,                 rows<&Counts::tokens>,            Tail::kZero},
    {"segment_ids",     kIds,     values<&P::segment_ids>,               view<&V::segment_ids>,               rows<&Counts::tokens>,            Tail::kZero},
    {"positions",       kIds,     values<&P::positions>,                 view<&V::tokens, &S::position>,      rows<&Counts::tokens>,            Tail::kZero},
    {"sequences",       kIds,     values<&P::sequences_of_tokens>,       view<&V::tokens, &S::sequence>,      rows<&Counts::tokens>,            Tail::kMinusOne},
    {"cu_tokens",       kIds,     values<&P::cu_tokens>,                 view<&V::tokens, &S::cu>,            ends<&Counts::most_sequences>,    Tail::kLast},
    {"sample_indices",  kIndices, values<&P::sample_indices>,            view<&V::sample_indices>,            rows<&Counts::most_sequences>,    Tail::kZero},
    {"head_token_rows", kIds,     values<&P::head_token_rows>,           view<&V::head_rows, &S::token_row>,  rows<&Counts::head_rows>,         Tail::kMinusOne},
    {"head_positions",  kIds,     values<&P::head_positions>,            view<&V::head_rows, &S::position>,   rows<&Counts::head_rows>,         Tail::kZero},
    {"head_sequences",  kIds,     values<&P::head_sequences>,            view<&V::head_rows, &S::sequence>,   rows<&Counts::head_rows>,         Tail::kMinusOne},
    {"cu_head_rows",    kIds,     values<&P::cu_head_rows>,              view<&V::head_rows, &S::cu>,         ends<&Counts::most_sequences>,    Tail::kLast},
    {"mlm_head_rows",   kIds,     values<&P::mlm_head_rows>,             view<&V::mlm_head_rows>,             rows<&Counts::masked>,            Tail::kMinusOne},
    {"mlm_labels",      kIds,     values<&P::mlm_labels>,                view<&V::mlm_labels>,                rows<&Counts::masked>,            Tail::kMinusOne},
    {"cls_head_rows",   kIds,     values<&P::cls_head_rows>,             view<&V::cls_head_rows>,             rows<&Counts::sequences>,         Tail::kMinusOne},
    {"nsp_labels",      kIds,     values<&P::nsp_labels>,                view<&V::nsp_labels>,                rows<&Counts::sequences>,         Tail::kMinusOne},
    {"word_order",      kIds,     values<&P::word_runs, &R::order>,      view<&V::word_runs, &W::order>,      rows<&Counts::tokens>,            Tail::kZero},
    {"word_starts",     kIds,     values<&P::word_runs, &R::starts>,     view<&V::word_runs, &W::starts>,     ends<&Counts::most_word_runs>,    Tail::kZero},
    {"word_run_ids",    kIds,     values<&P::word_runs, &R::ids>,        view<&V::word_runs, &W::ids>,        rows<&Counts::most_word_runs>,    Tail::kZero},
    {"word_run_count",  kIds,     run_count<&P::word_runs>,              view<&V::word_runs, &W::runs>,       always<1>,                              Tail::kZero},
    {"position_order",  kIds,     values<&P::position_runs, &R::order>,  view<&V::position_runs, &W::order>,  rows<&Counts::tokens>,            Tail::kZero},
    {"position_starts", kIds,     values<&P::position_runs, &R::starts>, view<&V::position_runs, &W::starts>, ends<&Counts::most_position_runs>, Tail::kZero},
    {"position_run_ids", kIds,    values<&P::position_runs, &R::ids>,    view<&V::position_runs, &W::ids>,    rows<&Counts::most_position_runs>, Tail::kZero},
    {"position_run_count", kIds,  run_count<&P::position_runs>,          view<&V::position_runs, &W::runs>,   always<1>,                              Tail::kZero},
    {"segment_order",   kIds,     values<&P::segment_runs, &R::order>,   view<&V::segment_runs, &W::order>,   rows<&Counts::tokens>,            Tail::kZero},
    {"segment_starts",  kIds,     values<&P::segment_runs, &R::starts>,  view<&V::segment_runs, &W::starts>,  ends<&Counts::most_segment_runs>, Tail::kZero},
    {"segment_run_ids", kIds,     values<&P::segment_runs, &R::ids>,     view<&V::segment_runs, &W::ids>,     rows<&Counts::most_segment_runs>, Tail::kZero},
    {"segment_run_count", kIds,   run_count<&P::segment_runs>,           view<&V::segment_runs, &W::runs>,    always<1>,                              Tail::kZero},
    {"step_scalars",    Dtype::kF32, scalars,                            view<&V::step_scalars>,              always<kStepScalars>,                     Tail::kZero},
    {"loss_divisors",   Dtype::kF64, loss_divisors,                      beside<&DeviceBatch::loss_divisors>, always<2>,                        Tail::kZero},
    {"flags",           Dtype::kF64, flags,                              beside<&DeviceBatch::flags>,         always<kStepFlags>,               Tail::kZero},
    {"lamb_scalars",    Dtype::kF32, lamb_scalars,                       beside<&DeviceBatch::lamb_scalars>,  always<kLambScalars>,             Tail::kZero},
    // clang-format on
};

/// Rows [from, to) of a column, after what is there.
void fill_tail(std::byte* column, const Column& spec, std::int64_t from, std::int64_t to) {
  const auto size = static_cast<std::int64_t>(size_of(spec.dtype));
  std::byte* const tail = column + from * size;
  const auto bytes = static_cast<std::size_t>((to - from) * size);
  switch (spec.tail) {
    case Tail::kZero:
      std::memset(tail, 0, bytes);
      break;
    case Tail::kMinusOne:
      std::memset(tail, 0xff, bytes);
      break;
    case Tail::kLast:
      for (std::int64_t row = from; row < to; ++row)
        std::memcpy(column + row * size, column + (from - 1) * size, static_cast<std::size_t>(size));
      break;
  }
}

}  // namespace

BatchLayout::BatchLayout(const RowCapacity& capacity, const BertConfig& model, const Ops& ops) : capacity_(capacity), ops_(ops) {
  most_ = {.tokens = ops.row_count(capacity.tokens),
           .head_rows = ops.row_count(capacity.head_rows()),
           .masked = ops.row_count(capacity.masked),
           .sequences = ops.row_count(capacity.sequences),
           .most_sequences = capacity.sequences};
  most_.most_word_runs = std::min(most_.tokens, model.vocab);
  most_.most_position_runs = std::min(most_.tokens, model.max_positions);
  most_.most_segment_runs = std::min(most_.tokens, model.type_vocab);
  for (const Column& column : kColumns) {
    const std::int64_t bytes = column.rows(most_) * static_cast<std::int64_t>(size_of(column.dtype));
    places_.push_back({column.name, bytes_, bytes});
    bytes_ += round_up(bytes, ArenaPlan::kAlignment);
  }
}

BatchRowCounts BatchLayout::counts_of(const PackedBatch& batch) const {
  BatchRowCounts counts = most_;
  counts.tokens = ops_.row_count(batch.tokens());
  counts.head_rows = ops_.row_count(batch.head_rows());
  counts.masked = ops_.row_count(batch.masked());
  counts.sequences = ops_.row_count(batch.sequences());
  return counts;
}

void BatchLayout::write(std::span<std::byte> image, const MicroBatch& batch) const {
  const PackedBatch& packed = batch.packed;
  check<InputError>(packed.tokens() <= capacity_.tokens && packed.sequences() <= capacity_.sequences,
                    "a micro-batch has {} tokens in {} sequences; {} tokens in {} sequences were planned", packed.tokens(),
                    packed.sequences(), capacity_.tokens, capacity_.sequences);
  check<InputError>(packed.masked() <= capacity_.masked,
                    "a micro-batch has {} masked positions; {} were planned: raise max-predictions above {}", packed.masked(),
                    capacity_.masked, capacity_.masked / std::max<std::int64_t>(capacity_.sequences, 1));
  const BatchRowCounts counts = counts_of(packed);
  for (std::size_t i = 0; i < std::size(kColumns); ++i) {
    const Column& column = kColumns[i];
    std::byte* const to = image.data() + places_[i].offset;
    const Bytes from = column.values(batch);
    const auto true_rows = static_cast<std::int64_t>(from.size() / size_of(column.dtype));
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    fill_tail(to, column, true_rows, column.rows(counts));
  }
}

DeviceBatch BatchLayout::view(Tensor image, const PackedBatch& batch) const {
  const BatchRowCounts counts = counts_of(batch);
  DeviceBatch device;
  auto* const base = static_cast<std::byte*>(image.raw());
  for (std::size_t i = 0; i < std::size(kColumns); ++i) {
    const Column& column = kColumns[i];
    column.view(device) = Tensor(base + places_[i].offset, column.dtype, Shape{column.rows(counts)}, 1, image.space());
  }
  return device;
}

}  // namespace flashbert
