#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace flashbert {

/// The memory of a contiguous tensor of any type, for collectives that move it themselves. Throws BrokenPromise for a device's that cannot
/// be read here.
const std::byte* host_bytes(const ConstTensor& tensor);
std::byte* host_bytes(const Tensor& tensor);

}  // namespace flashbert
