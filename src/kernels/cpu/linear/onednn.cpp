#include "kernels/cpu/linear/onednn.h"

#include <omp.h>
#include <spdlog/spdlog.h>

#include <array>
#include <dnnl.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace flashbert::cpu {

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

namespace {

using Memory = dnnl::memory;

Memory::data_type data_type(Dtype dtype) { return dtype == Dtype::kBf16 ? Memory::data_type::bf16 : Memory::data_type::f32; }

Memory::desc weight_description(const ProductShape& shape) {
  const Memory::dims dims{shape.depth, shape.columns};
  const Memory::data_type type = data_type(shape.input);
  switch (shape.layout) {
    case WeightLayout::kBlocked:
      return {dims, type, shape.input == Dtype::kBf16 ? Memory::format_tag::BA16a64b2a : Memory::format_tag::BA16a64b};
    case WeightLayout::kRowMajor:
      return {dims, type, Memory::dims{shape.weight_stride, 1}};
    case WeightLayout::kTransposed:
      break;
  }
  return {dims, type, Memory::dims{1, shape.weight_stride}};
}

struct Descriptions {
  Memory::desc a, b, bias, c;
};

Descriptions describe(const ProductShape& shape) {
  return {.a = {{shape.rows, shape.depth}, data_type(shape.input), Memory::dims{shape.depth, 1}},
          .b = weight_description(shape),
          .bias = shape.bias ? Memory::desc({1, shape.columns}, Memory::data_type::f32, Memory::dims{shape.columns, 1}) : Memory::desc(),
          .c = {{shape.rows, shape.columns}, data_type(shape.output), Memory::dims{shape.columns, 1}}};
}

dnnl::matmul::primitive_desc describe_primitive(const ProductShape& shape, const Descriptions& of, const dnnl::engine& engine) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.add) {
    dnnl::post_ops operations;
    operations.append_sum(1.0F);
    attributes.set_post_ops(operations);
  }
#if DNNL_VERSION_MAJOR >= 3
  if (shape.bias) return {engine, of.a, of.b, of.bias, of.c, attributes};
  return {engine, of.a, of.b, of.c, attributes};
#else
  if (shape.bias) return {dnnl::matmul::desc(of.a, of.b, of.bias, of.c), attributes, engine};
  return {dnnl::matmul::desc(of.a, of.b, of.c), attributes, engine};
#endif
}

/// oneDNN plans for omp_get_max_threads() when a primitive is made.
class SingleThreaded {
 public:
  SingleThreaded() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(threads_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int threads_;
};

struct ThreadMemory {
  Memory a, b, bias, c, scratchpad;
};

void cap_instruction_set(Isa isa) {
  if (isa == Isa::kAvx512Bf16) return;
  const dnnl::cpu_isa cap = isa == Isa::kAvx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::avx512_core;
  // The library takes one setting, before its first use: a second Ops of the same process finds it in force.
  if (dnnl::set_max_cpu_isa(cap) == dnnl::status::success) return;
  const dnnl::cpu_isa effective = dnnl::get_effective_cpu_isa();
  check<EnvironmentError>(effective == cap,
                          "oneDNN already runs with instruction set {:#x}, {} ({:#x}) was asked for; set FLASHBERT_MAX_ISA "
                          "before the program starts",
                          static_cast<int>(effective), name_of(isa), static_cast<int>(cap));
}

}  // namespace

struct ProductSet::Library {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::vector<dnnl::stream> streams;  // one a thread
};

struct Product::State {
  dnnl::matmul primitive;
  std::vector<ThreadMemory> memory;
  const std::vector<dnnl::stream>* streams = nullptr;
  std::int64_t scratchpad_bytes = 0;
  bool bias = false;
};

Product::Product(std::unique_ptr<State> state) : state_(std::move(state)) {}
Product::~Product() = default;

std::int64_t Product::scratchpad_bytes() const { return state_->scratchpad_bytes; }

bool Product::run(int thread, const ProductData& data) const {
  const auto index = static_cast<std::size_t>(thread);
  const ThreadMemory& memory = state_->memory[index];
  struct Argument {
    int name;
    dnnl_memory_t memory;
    const void* address;
  };
  // The C interface takes its arguments from the stack; the C++ one builds a map for each call.
  const std::array<Argument, 5> arguments{{{DNNL_ARG_SRC, memory.a.get(), data.a},
                                           {DNNL_ARG_WEIGHTS, memory.b.get(), data.b},
                                           {DNNL_ARG_DST, memory.c.get(), data.c},
                                           {DNNL_ARG_SCRATCHPAD, memory.scratchpad.get(), data.scratchpad},
                                           {DNNL_ARG_BIAS, state_->bias ? memory.bias.get() : nullptr, data.bias}}};
  std::array<dnnl_exec_arg_t, 5> passed{};
  const std::size_t count = state_->bias ? 5 : 4;
  for (std::size_t i = 0; i < count; ++i) {
    if (dnnl_memory_set_data_handle(arguments[i].memory, const_cast<void*>(arguments[i].address)) != dnnl_success) return false;
    passed[i] = {arguments[i].name, arguments[i].memory};
  }
  return dnnl_primitive_execute(state_->primitive.get(), (*state_->streams)[index].get(), static_cast<int>(count), passed.data()) ==
         dnnl_success;
}

ProductSet::ProductSet(const CpuContext& context) {
  cap_instruction_set(context.isa());
  library_ = std::make_unique<Library>();
  for (int thread = 0; thread < context.threads(); ++thread) library_->streams.emplace_back(library_->engine);
  const SingleThreaded single_threaded;
  for (const Dtype dtype : {Dtype::kF32, Dtype::kBf16}) {
    const Isa needed = dtype == Dtype::kBf16 ? Isa::kAvx512Bf16 : Isa::kAvx512;
    if (context.isa() < needed) continue;
    const ProductShape probe{.rows = 64, .columns = 64, .depth = 64, .input = dtype, .output = Dtype::kF32};
    const std::string_view name = describe_primitive(probe, describe(probe), library_->engine).impl_info_str();
    const bool fast = name.starts_with("brg");
    (dtype == Dtype::kBf16 ? blocked_bf16_ : blocked_f32_) = fast;
    if (!fast) spdlog::warn("oneDNN offers only '{}' for packed {} products here: plain layouts, 10-20 % slower", name, name_of(dtype));
  }
}

ProductSet::~ProductSet() = default;

bool ProductSet::blocked(Dtype input) const { return input == Dtype::kBf16 ? blocked_bf16_ : blocked_f32_; }

const Product& ProductSet::get(const ProductShape& shape) {
  const auto found = products_.find(shape);
  if (found != products_.end()) return *found->second;
  const SingleThreaded single_threaded;
  const Descriptions of = describe(shape);
  auto state = std::make_unique<Product::State>();
  try {
    const dnnl::matmul::primitive_desc description = describe_primitive(shape, of, library_->engine);
    state->primitive = dnnl::matmul(description);
    state->streams = &library_->streams;
    state->scratchpad_bytes = static_cast<std::int64_t>(description.scratchpad_desc().get_size());
    state->bias = shape.bias;
    for (std::size_t thread = 0; thread < library_->streams.size(); ++thread) {
      const auto object = [&](const Memory::desc& desc) { return Memory(desc, library_->engine, DNNL_MEMORY_NONE); };
      state->memory.push_back(
          {object(of.a), object(of.b), shape.bias ? object(of.bias) : Memory(), object(of.c), object(description.scratchpad_desc())});
    }
  } catch (const dnnl::error& failure) {
    throw EnvironmentError(fmt::format("oneDNN cannot multiply ({}, {}) by ({}, {}) in {}: {}; use --precision f32 or another oneDNN",
                                       shape.rows, shape.depth, shape.depth, shape.columns, name_of(shape.input), failure.what()));
  }
  std::unique_ptr<Product> product(new Product(std::move(state)));
  return *products_.emplace(shape, std::move(product)).first->second;
}

}  // namespace flashbert::cpu
