#include "comm/collectives.h"

#include <cstring>

#include "comm/host_bytes.h"
#include "core/error.h"

namespace flashbert {
namespace {

void check_whole(const char* call, const ConstTensor& tensor) {
  check<ShapeError>(static_cast<bool>(tensor), "{}: a tensor is missing", call);
  check<ShapeError>(tensor.contiguous(), "{}: the rows of {} lie {} elements apart; it takes contiguous tensors", call,
                    tensor.shape().text(), tensor.row_stride());
}

/// `all` must be as many slices as the group has ranks.
void check_slices(const char* call, const ConstTensor& slice, const ConstTensor& all, int size) {
  check_whole(call, slice);
  check_whole(call, all);
  check<DtypeError>(slice.dtype() == all.dtype(), "{}: the slice holds {}, the whole {}", call, name_of(slice.dtype()),
                    name_of(all.dtype()));
  check<ShapeError>(slice.elements() * size == all.elements(), "{} over {} ranks: {} is not {} slices of {}", call, size,
                    all.shape().text(), size, slice.shape().text());
}

class SelfCollectives final : public Collectives {
 public:
  [[nodiscard]] int rank(Group /*group*/) const override { return 0; }
  [[nodiscard]] int size(Group /*group*/) const override { return 1; }

 private:
  void do_all_reduce(Tensor /*values*/, Group /*group*/) override {}
  void do_reduce_scatter(ConstTensor all, Tensor slice, Group /*group*/) override { copy(slice, all); }
  void do_all_gather(ConstTensor slice, Tensor all, Group /*group*/) override { copy(all, slice); }
  void do_broadcast(Tensor /*values*/, int /*root*/, Group /*group*/) override {}

  static void copy(const Tensor& to, const ConstTensor& from) {
    std::byte* const target = host_bytes(to);
    const std::byte* const source = host_bytes(from);
    if (target != source) std::memcpy(target, source, static_cast<std::size_t>(from.bytes()));
  }
};

}  // namespace

const std::byte* host_bytes(const ConstTensor& tensor) {
  check<BrokenPromise>(tensor.space() == nullptr || tensor.space()->readable(),
                       "a tensor of shape {} lies in device memory; these collectives are for the host's", tensor.shape().text());
  return static_cast<const std::byte*>(tensor.raw());
}

std::byte* host_bytes(const Tensor& tensor) { return const_cast<std::byte*>(host_bytes(ConstTensor(tensor))); }

void Collectives::all_reduce(Tensor values, Group group) {
  check_whole("all_reduce", values);
  const Dtype dtype = values.dtype();
  check<DtypeError>(dtype == Dtype::kF32 || dtype == Dtype::kF64 || dtype == Dtype::kBf16, "all_reduce adds f32, f64 or bf16, not {}",
                    name_of(dtype));
  do_all_reduce(values, group);
}

void Collectives::reduce_scatter(ConstTensor all, Tensor slice, Group group) {
  check_slices("reduce_scatter", slice, all, size(group));
  check<DtypeError>(all.dtype() == Dtype::kF32 || all.dtype() == Dtype::kBf16, "reduce_scatter adds f32 or bf16, not {}",
                    name_of(all.dtype()));
  do_reduce_scatter(all, slice, group);
}

void Collectives::all_gather(ConstTensor slice, Tensor all, Group group) {
  check_slices("all_gather", slice, all, size(group));
  do_all_gather(slice, all, group);
}

void Collectives::broadcast(Tensor values, int root, Group group) {
  check_whole("broadcast", values);
  check<BrokenPromise>(root >= 0 && root < size(group), "broadcast from rank {}: the group has {} ranks", root, size(group));
  do_broadcast(values, root, group);
}

std::unique_ptr<Collectives> make_self_collectives() { return std::make_unique<SelfCollectives>(); }

}  // namespace flashbert
