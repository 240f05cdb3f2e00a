#include "train/setup.h"

#include <algorithm>
#include <random>

#include "core/error.h"

namespace flashbert {

Setup make_setup(const TrainSettings& settings, const Communicator& communicator) {
  Setup setup;
  setup.threads = settings.threads > 0 ? static_cast<int>(settings.threads) : communicator.own_cores();
  setup.context = make_context({.device = parse_device(settings.device), .threads = setup.threads});
  setup.ops = make_ops(*setup.context);
  const bool bf16 = settings.precision == Precision::kBf16 && setup.context->has_bf16();
  setup.compute = bf16 ? Dtype::kBf16 : Dtype::kF32;
  const char* const why = bf16 ? "bf16 products and activations, f32 sums, norms and master weights"
                          : settings.precision == Precision::kF32
                              ? "f32 throughout, as asked"
                              : "f32: this processor has no bf16 products, where bf16 is slower than f32";
  setup.note = fmt::format("{}, precision {}", setup.context->description(), why);
  return setup;
}

std::uint64_t shared_seed(std::uint64_t given, Communicator& communicator) {
  std::uint64_t seed = given;
  if (seed == 0 && communicator.root()) {
    std::random_device entropy;
    // 63 bits: the official seed check reads the value with a signed integer.
    while (seed == 0) seed = ((static_cast<std::uint64_t>(entropy()) << 32) | entropy()) >> 1;
  }
  communicator.broadcast(&seed, sizeof seed);
  return seed;
}

}  // namespace flashbert
