#include "kernels/cpu/row_kernels_impl.h"

namespace flashbert::cpu {
const RowKernels kRowKernelsAvx2 = kTable;
}  // namespace flashbert::cpu
