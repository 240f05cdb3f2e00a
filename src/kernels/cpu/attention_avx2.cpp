#include "kernels/cpu/attention_backward_impl.h"
#include "kernels/cpu/attention_forward_impl.h"

namespace flashbert::cpu {
const AttentionKernels kAttentionAvx2 = {.forward = {forward_item<float>, forward_item<Half>},
                                         .backward = {backward_item<float>, backward_item<Half>}};
}  // namespace flashbert::cpu
