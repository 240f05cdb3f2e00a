#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/linear/linear.h"
#include "kernels/workspace.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;
// Below this a parallel region costs more than it saves (a memset of 256 KiB takes about 10 us).
constexpr std::int64_t kParallelBytes = std::int64_t{1} << 18;
constexpr std::int64_t kCopyChunk = std::int64_t{1} << 16;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment; }

void copy_bytes(void* to, const void* from, std::int64_t bytes, int threads) {
  const std::int64_t chunks = (bytes + kCopyChunk - 1) / kCopyChunk;
#pragma omp parallel for num_threads(threads) schedule(static) if (bytes >= kParallelBytes)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::int64_t begin = chunk * kCopyChunk;
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(std::min(kCopyChunk, bytes - begin)));
  }
}

}  // namespace

CpuOps::CpuOps(Context& context) : Ops(context), linear_(std::make_unique<Linear>(context)) {}

CpuOps::~CpuOps() = default;

std::int64_t CpuOps::prepare(const OpsPlan& plan) {
  linear_bytes_ = aligned(linear_->prepare(plan));
  const std::int64_t scratch_bytes = std::max({attention_scratch_bytes(plan, context()), layer_norm_scratch_bytes(plan, context()),
                                               embeddings_scratch_bytes(plan, context()), cross_entropy_scratch_bytes(plan, context()),
                                               optimizer_scratch_bytes(plan, context())});
  return linear_bytes_ + aligned(scratch_bytes);
}

void CpuOps::bind_workspace(Tensor workspace) {
  check<ShapeError>(workspace.dtype() == Dtype::kU8 && workspace.contiguous() && workspace.bytes() >= linear_bytes_,
                    "workspace is {} {}; book contiguous u8 of the size that prepare returned, at least {} bytes",
                    name_of(workspace.dtype()), workspace.shape().text(), linear_bytes_);
  const Tensor bytes = workspace.reshape(Shape{workspace.elements()});
  linear_->bind_workspace(bytes.rows(0, linear_bytes_));
  workspace_ = bytes.rows(linear_bytes_, bytes.elements() - linear_bytes_);
}

std::int64_t CpuOps::linear_pack_bytes(const LinearShape& shape) const { return linear_->pack_bytes(shape); }

std::byte* CpuOps::scratch(const char* op, std::int64_t bytes) {
  if (workspace_) {
    require_workspace(op, bytes, workspace_.bytes());
    return static_cast<std::byte*>(workspace_.raw());
  }
  if (own_scratch_ == nullptr || own_scratch_->bytes() < bytes) {
    own_scratch_.reset();
    ArenaPlan plan;
    plan.book("workspace", "scratch", Dtype::kU8, Shape{bytes});
    own_scratch_ = std::make_unique<Arena>(plan);
  }
  return static_cast<std::byte*>(own_scratch_->tensor(BufferId{0}).raw());
}

void CpuOps::do_upload(Tensor to, const void* from) { copy_bytes(to.raw(), from, to.bytes(), context().threads()); }

void CpuOps::do_download(void* to, ConstTensor from) { copy_bytes(to, from.raw(), from.bytes(), context().threads()); }

void CpuOps::do_fill_zero(Tensor tensor) {
  const std::int64_t bytes = tensor.bytes();
  auto* const data = static_cast<std::byte*>(tensor.raw());
#pragma omp parallel for num_threads(context().threads()) schedule(static) if (bytes >= kParallelBytes)
  for (std::int64_t chunk = 0; chunk < (bytes + kCopyChunk - 1) / kCopyChunk; ++chunk) {
    const std::int64_t begin = chunk * kCopyChunk;
    std::memset(data + begin, 0, static_cast<std::size_t>(std::min(kCopyChunk, bytes - begin)));
  }
}

void CpuOps::do_linear_pack(const LinearPack& args) { linear_->pack(args); }
void CpuOps::do_linear_forward(const LinearForward& args) { linear_->forward(args); }
void CpuOps::do_linear_input_gradient(const LinearInputGradient& args) { linear_->input_gradient(args); }
void CpuOps::do_linear_weight_gradient(const LinearWeightGradient& args) { linear_->weight_gradient(args); }

}  // namespace flashbert::cpu
