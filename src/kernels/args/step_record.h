#pragma once

#include "kernels/args/common.h"

namespace flashbert {

/// sum[i] += value[i] / divisor[i]; all (n) f64 in device memory, sum must alias neither.
/// With divisor 1 and a sum of 0 the value itself, to the last bit.
struct AddQuotients {
  Tensor sum;
  ConstTensor value, divisor;
};

/// What first_bad (1) i32 holds where the update is held back though every gradient is finite.
inline constexpr std::int32_t kHeldUpdate = -2;

/// Holds back this update and all that follow, until `held` is zeroed, unless all is well: first_bad is -1 (all gradients are finite),
/// every value of `finite` (n) f64 is finite, every value of `zero` (k) f64 is 0, and no earlier update was held. Else held (1) i32 becomes
/// 1, and a first_bad of -1 becomes kHeldUpdate, which makes lamb_update do nothing. Decided on the device: the host learns of it later.
struct HoldUpdate {
  Tensor held, first_bad;
  ConstTensor finite, zero;
};

}  // namespace flashbert
