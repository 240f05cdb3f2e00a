#include "core/dtype.h"

namespace flashbert {

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kU8:
      return 1;
    case Dtype::kBf16:
      return 2;
    case Dtype::kF32:
    case Dtype::kI32:
    case Dtype::kU32:
      return 4;
    case Dtype::kF64:
    case Dtype::kI64:
    case Dtype::kU64:
      return 8;
  }
  return 0;
}

std::string_view name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "f32";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kF64:
      return "f64";
    case Dtype::kU8:
      return "u8";
    case Dtype::kI32:
      return "i32";
    case Dtype::kU32:
      return "u32";
    case Dtype::kI64:
      return "i64";
    case Dtype::kU64:
      return "u64";
  }
  return "unknown";
}

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 0x1p-24;
    case Dtype::kBf16:
      return 0x1p-8;
    case Dtype::kF64:
      return 0x1p-53;
    default:
      return 0.0;
  }
}

}  // namespace flashbert
