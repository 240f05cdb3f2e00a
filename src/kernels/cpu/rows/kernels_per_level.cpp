#include "kernels/cpu/rows/kernels_impl.h"

namespace flashbert::cpu {
const RowKernels FLASHBERT_OF_LEVEL(kRowKernels) = kTable;
}  // namespace flashbert::cpu
