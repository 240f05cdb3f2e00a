#include "train/backend.h"

#include "core/error.h"

namespace flashbert {

Backend make_backend(const TrainSettings& settings, const Ranks& ranks) {
  Backend backend;
  backend.threads = settings.threads > 0 ? static_cast<int>(settings.threads) : ranks.own_cores();
  backend.context = make_context({.device = parse_device(settings.device), .threads = backend.threads});
  backend.ops = make_ops(*backend.context);
  const bool bf16 = settings.precision == Precision::kBf16 && backend.context->has_bf16();
  backend.compute = bf16 ? Dtype::kBf16 : Dtype::kF32;
  const char* const why = bf16 ? "bf16 products and activations, f32 sums, norms and master weights"
                          : settings.precision == Precision::kF32
                              ? "f32 throughout, as asked"
                              : "f32: this processor has no bf16 products, where bf16 is slower than f32";
  backend.note = fmt::format("{}, precision {}", backend.context->description(), why);
  return backend;
}

}  // namespace flashbert
