#include "kernels/cpu/attention/backward_impl.h"
#include "kernels/cpu/attention/forward_impl.h"

namespace flashbert::cpu {
const AttentionKernels FLASHBERT_OF_LEVEL(kAttention) = {.forward = {forward_item<float>, forward_item<Half>},
                                                         .backward = {backward_item<float>, backward_item<Half>}};
}  // namespace flashbert::cpu
