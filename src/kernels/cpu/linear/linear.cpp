#include "kernels/cpu/linear/linear.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/cpu/linear/bias_gradient.h"
#include "kernels/cpu/linear/multiply.h"
#include "kernels/cpu/linear/weight_gradient.h"
#include "kernels/cpu/rows/dispatch.h"
#include "kernels/workspace.h"

namespace flashbert::cpu {
namespace {

/// Sources this deep are the gradients of the vocabulary's scores, which the model keeps dense.
constexpr std::int64_t kDenseDepth = 8192;

std::int64_t gradient_bytes(const WeightGradientPlan& plan, int threads) {
  return plan.shared_bytes() + plan.thread_scratch().bytes() * threads;
}

void check_ran(bool ran) {
  check<EnvironmentError>(ran, "oneDNN reported an error while multiplying; run again with the environment variable {}=2 to see it",
                          "DNNL_VERBOSE");
}

/// The pack of B = W^T (blocks of 64 rows of W), one task a block.
void pack_forward(const LinearPath& path, ConstTensor weight, std::byte* to, int threads) {
  const std::int64_t depth = path.padded_depth(weight.extent(1));
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t block = 0; block < ceil_div(weight.extent(0), kColumnBlock); ++block) {
    pack_transposed({.to = to + block * kColumnBlock * depth * path.element_bytes(),
                     .from = block_of(weight, block * kColumnBlock, 0),
                     .columns = std::min(kColumnBlock, weight.extent(0) - block * kColumnBlock),
                     .depth = weight.extent(1),
                     .padded_depth = depth});
  }
}

/// The pack of B = W (blocks of 64 columns of W), one task for 32 rows.
void pack_gradient(const LinearPath& path, ConstTensor weight, std::byte* to, int threads) {
  const std::int64_t depth = path.padded_depth(weight.extent(0));
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t group = 0; group < depth / kRowBlock; ++group) {
    const std::int64_t row = group * kRowBlock;
    pack_rows({.to = to + row * kColumnBlock * path.element_bytes(),
               .block_stride = depth * kColumnBlock,
               .from = block_of(weight, row, 0),
               .rows = std::min(kRowBlock, weight.extent(0) - row),
               .columns = weight.extent(1)});
  }
}

/// The f32 copy of bf16 weights where oneDNN cannot multiply bf16.
void pack_converted(const LinearPath& path, ConstTensor weight, std::byte* to, int threads) {
  const std::int64_t columns = weight.extent(1);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t row = 0; row < weight.extent(0); ++row) {
    copy_block({.to = {to + row * columns * path.element_bytes(), columns, path.dtype},
                .from = block_of(weight, row, 0),
                .rows = 1,
                .columns = columns,
                .padded_rows = 1,
                .padded_columns = columns});
  }
}

}  // namespace

struct Linear::Implementation {
  explicit Implementation(CpuContext& context_of_ops)
      : context(context_of_ops), kernels(row_kernels(context_of_ops)), products(context_of_ops) {}

  [[nodiscard]] LinearPath path_of(Dtype weights) const {
    if (weights == Dtype::kBf16 && !context.has_bf16()) return {Dtype::kF32, false};
    return {weights, products.blocked(weights)};
  }
  [[nodiscard]] static std::int64_t forward_pack_bytes(const LinearPath& path, Dtype weights, std::int64_t out, std::int64_t in) {
    return path.blocked || path.dtype != weights ? path.packed_bytes(in, out) : 0;
  }
  [[nodiscard]] static std::int64_t gradient_pack_bytes(const LinearPath& path, std::int64_t out, std::int64_t in) {
    return path.blocked ? path.packed_bytes(out, in) : 0;
  }

  /// The bound workspace, which must be large enough; an own one that grows where none is bound.
  std::byte* scratch(const char* op, std::int64_t bytes) {
    if (workspace) {
      require_workspace(op, bytes, workspace.bytes());
      return static_cast<std::byte*>(workspace.raw());
    }
    if (own_workspace.bytes() < bytes) own_workspace = context.allocate(bytes, MemoryKind::kDevice);
    return static_cast<std::byte*>(own_workspace.data());
  }

  void multiply(const char* op, const MultiplyShape& shape, const MultiplyData& data) {
    const MultiplyPlan plan(shape, products);
    check_ran(plan.run(data, context.threads(), scratch(op, plan.scratch_bytes(plan.source_of(data.a), context.threads()))));
  }

  [[nodiscard]] MultiplyShape shape_of(const LinearPath& path, WeightLayout plain, std::int64_t weight_stride) const {
    MultiplyShape shape;
    shape.path = path;
    shape.layout = path.blocked ? WeightLayout::kBlocked : plain;
    shape.weight_stride = path.blocked ? 0 : weight_stride;
    return shape;
  }
  /// The start of a pack, which must hold so many bytes; W itself where no pack is needed.
  static const std::byte* weights_at(const LinearWeights& weights, std::int64_t needed) {
    if (needed == 0) return static_cast<const std::byte*>(weights.weight.raw());
    const std::int64_t held = weights.pack ? weights.pack.bytes() : 0;
    check<ShapeError>(held >= needed, "the pack of weights {} holds {} bytes, this product needs {}; size it with linear_pack_bytes, {}",
                      weights.weight.shape().text(), held, needed, "with training = true for gradients");
    return static_cast<const std::byte*>(weights.pack.raw());
  }

  [[nodiscard]] std::int64_t booked_bytes(const MultiplyPlan& plan, std::int64_t depth) const {
    const std::int64_t dense = plan.scratch_bytes(MultiplyPlan::Source::kDense, context.threads());
    return depth > kDenseDepth ? dense : std::max(dense, plan.scratch_bytes(MultiplyPlan::Source::kAny, context.threads()));
  }
  std::int64_t prepare_forward(const LinearShape& layer, std::int64_t rows);
  std::int64_t prepare_gradients(const LinearShape& layer, std::int64_t rows);

  CpuContext& context;
  const RowKernels& kernels;
  ProductSet products;
  Tensor workspace;
  Buffer own_workspace;
};

std::int64_t Linear::Implementation::prepare_forward(const LinearShape& layer, std::int64_t rows) {
  MultiplyShape shape = shape_of(path_of(layer.compute), WeightLayout::kTransposed, layer.in);
  shape.rows = rows;
  shape.columns = layer.out;
  shape.depth = layer.in;
  shape.output = layer.compute;
  shape.bias = true;
  return booked_bytes(MultiplyPlan(shape, products), layer.in);
}

std::int64_t Linear::Implementation::prepare_gradients(const LinearShape& layer, std::int64_t rows) {
  MultiplyShape shape = shape_of(path_of(layer.compute), WeightLayout::kRowMajor, layer.in);
  shape.rows = rows;
  shape.columns = layer.in;
  shape.depth = layer.out;
  shape.output = layer.compute;
  std::int64_t bytes = 0;
  for (const bool add : {false, true}) {
    shape.add = add;
    bytes = std::max(bytes, booked_bytes(MultiplyPlan(shape, products), layer.out));
  }
  const WeightGradientPlan plan({.tokens = rows, .rows = layer.out, .columns = layer.in, .path = path_of(layer.compute)}, products);
  return std::max(bytes, gradient_bytes(plan, context.threads()));
}

Linear::Linear(CpuContext& context) : implementation_(std::make_unique<Implementation>(context)) {}
Linear::~Linear() = default;

std::int64_t Linear::workspace_bytes(const OpsPlan& plan) const {
  static_assert(kRowBucket % kRowBlock == 0, "a batch's rows are whole blocks, so that the plan meets every count of blocks");
  std::int64_t bytes = 0;
  for (const LinearShape& layer : plan.linears) {
    for (std::int64_t rows = kRowBlock; rows <= bucket_rows(layer.max_rows); rows += kRowBlock) {
      bytes = std::max(bytes, implementation_->prepare_forward(layer, rows));
      if (layer.training) bytes = std::max(bytes, implementation_->prepare_gradients(layer, rows));
    }
  }
  return bytes;
}

void Linear::prepare(const OpsPlan& plan, Tensor workspace) {
  require_workspace("linear", workspace_bytes(plan), workspace.bytes());
  implementation_->workspace = workspace;
}

std::int64_t Linear::pack_bytes(const LinearShape& shape) const {
  const LinearPath path = implementation_->path_of(shape.compute);
  const std::int64_t forward = Implementation::forward_pack_bytes(path, shape.compute, shape.out, shape.in);
  return forward + (shape.training ? Implementation::gradient_pack_bytes(path, shape.out, shape.in) : 0);
}

void Linear::pack(const LinearPack& args) {
  const ConstTensor weight = args.weights.weight;
  const LinearPath path = implementation_->path_of(weight.dtype());
  const int threads = implementation_->context.threads();
  const std::int64_t forward = Implementation::forward_pack_bytes(path, weight.dtype(), weight.extent(0), weight.extent(1));
  if (forward == 0) return;
  Implementation::weights_at(args.weights, forward);
  auto* const to = static_cast<std::byte*>(args.weights.pack.raw());
  if (!path.blocked) return pack_converted(path, weight, to, threads);
  pack_forward(path, weight, to, threads);
  const std::int64_t gradient = Implementation::gradient_pack_bytes(path, weight.extent(0), weight.extent(1));
  if (args.weights.pack.bytes() >= forward + gradient) pack_gradient(path, weight, to + forward, threads);
}

void Linear::forward(const LinearForward& args) {
  const ConstTensor weight = args.weights.weight;
  const LinearPath path = implementation_->path_of(weight.dtype());
  const std::int64_t needed = Implementation::forward_pack_bytes(path, weight.dtype(), weight.extent(0), weight.extent(1));
  const std::int64_t stride = needed > 0 ? weight.extent(1) : weight.row_stride();
  MultiplyShape shape = implementation_->shape_of(path, WeightLayout::kTransposed, stride);
  shape.rows = args.y.extent(0);
  shape.columns = weight.extent(0);
  shape.depth = weight.extent(1);
  shape.output = args.y.dtype();
  shape.bias = static_cast<bool>(args.bias);
  const std::byte* const weights = Implementation::weights_at(args.weights, needed);
  // Kept or not, what goes into GELU is rounded to y's type first.
  const Tensor c = args.before_gelu ? args.before_gelu : args.y;
  implementation_->multiply(
      "linear_forward", shape,
      {.c = c,
       .a = args.x,
       .bias = args.bias,
       .weights = weights,
       .epilogue = {
           .kernels = &implementation_->kernels, .gelu = args.activation == Activation::kGelu ? args.y : Tensor(), .before_gelu = {}}});
}

void Linear::input_gradient(const LinearInputGradient& args) {
  const ConstTensor weight = args.weights.weight;
  const LinearPath path = implementation_->path_of(weight.dtype());
  const std::int64_t offset = Implementation::forward_pack_bytes(path, weight.dtype(), weight.extent(0), weight.extent(1));
  const std::int64_t needed = offset + Implementation::gradient_pack_bytes(path, weight.extent(0), weight.extent(1));
  const std::int64_t stride = needed > 0 ? weight.extent(1) : weight.row_stride();
  MultiplyShape shape = implementation_->shape_of(path, WeightLayout::kRowMajor, stride);
  shape.rows = args.dx.extent(0);
  shape.columns = weight.extent(1);
  shape.depth = weight.extent(0);
  shape.output = args.dx.dtype();
  shape.add = args.accumulate == Accumulate::kAdd;
  const std::byte* const weights = Implementation::weights_at(args.weights, needed) + (path.blocked ? offset : 0);
  implementation_->multiply("linear_input_gradient", shape,
                            {.c = args.dx,
                             .a = args.dy,
                             .bias = {},
                             .weights = weights,
                             .epilogue = {.kernels = &implementation_->kernels, .gelu = {}, .before_gelu = args.before_gelu}});
  if (args.dbias)
    bias_gradient({.dbias = args.dbias, .dy = args.dx, .accumulate = args.dbias_accumulate}, implementation_->context.threads());
}

void Linear::weight_gradient(const LinearWeightGradient& args) {
  const WeightGradientPlan plan({.tokens = args.x.extent(0),
                                 .rows = args.dweight.extent(0),
                                 .columns = args.dweight.extent(1),
                                 .path = implementation_->path_of(args.x.dtype())},
                                implementation_->products);
  const int threads = implementation_->context.threads();
  check_ran(plan.run(args, threads, implementation_->scratch("linear_weight_gradient", gradient_bytes(plan, threads))));
}

}  // namespace flashbert::cpu
