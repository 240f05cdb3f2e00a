#include "kernels/cpu/cpu_ops.h"

#include <algorithm>

#include "core/rounding.h"
#include "kernels/cpu/linear/linear.h"
#include "kernels/workspace.h"

namespace flashbert::cpu {
namespace {

constexpr std::int64_t kWorkspaceAlignment = 256;
std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kWorkspaceAlignment); }

}  // namespace

CpuOps::CpuOps(CpuContext& context) : Ops(context), context_(context), linear_(std::make_unique<Linear>(context)) {}

CpuOps::~CpuOps() = default;

std::int64_t CpuOps::workspace_bytes(const OpsPlan& plan) const {
  const bool trains = plan.training && !plan.parameter_elements.empty();
  const std::int64_t scratch_bytes = std::max({attention_scratch_bytes(plan, context()), layer_norm_scratch_bytes(plan, context()),
                                               embeddings_scratch_bytes(plan, context()), cross_entropy_scratch_bytes(plan, context()),
                                               trains ? optimizer_scratch_bytes(plan, context()) : 0});
  return aligned(linear_->workspace_bytes(plan)) + aligned(scratch_bytes);
}

void CpuOps::prepare(const OpsPlan& plan, Tensor workspace) {
  const std::int64_t needed = workspace_bytes(plan);
  check<ShapeError>(workspace.dtype() == Dtype::kU8 && workspace.contiguous() && workspace.bytes() >= needed,
                    "workspace is {} {}; book contiguous u8 of the size that workspace_bytes returns for the plan, here {} bytes",
                    name_of(workspace.dtype()), workspace.shape().text(), needed);
  const Tensor bytes = workspace.reshape(Shape{workspace.elements()});
  const std::int64_t linear_bytes = aligned(linear_->workspace_bytes(plan));
  linear_->prepare(plan, bytes.rows(0, linear_bytes));
  workspace_ = bytes.rows(linear_bytes, bytes.elements() - linear_bytes);
}

std::int64_t CpuOps::linear_pack_bytes(const LinearShape& shape) const { return linear_->pack_bytes(shape); }

std::byte* CpuOps::scratch(const char* op, std::int64_t bytes) {
  if (workspace_) {
    require_workspace(op, bytes, workspace_.bytes());
    return static_cast<std::byte*>(workspace_.raw());
  }
  if (own_scratch_.bytes() < bytes) own_scratch_ = context_.allocate(bytes, MemoryKind::kDevice);
  return static_cast<std::byte*>(own_scratch_.data());
}

void CpuOps::do_fill_zero(Tensor tensor) { zero_bytes(tensor.raw(), tensor.bytes(), context_.threads()); }

void CpuOps::do_linear_pack(const LinearPack& args) { linear_->pack(args); }
void CpuOps::do_linear_forward(const LinearForward& args) { linear_->forward(args); }
void CpuOps::do_linear_input_gradient(const LinearInputGradient& args) { linear_->input_gradient(args); }
void CpuOps::do_linear_weight_gradient(const LinearWeightGradient& args) { linear_->weight_gradient(args); }

}  // namespace flashbert::cpu
