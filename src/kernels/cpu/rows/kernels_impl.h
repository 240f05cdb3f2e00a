// The table of row kernels at the width of simd.h; included once by each row_kernels_<isa>.cpp. Everything is in an unnamed namespace.
#pragma once

#include "kernels/cpu/rows/elementwise_impl.h"
#include "kernels/cpu/rows/kernels.h"
#include "kernels/cpu/rows/loss_impl.h"
#include "kernels/cpu/rows/norm_impl.h"
#include "kernels/cpu/rows/optimizer_impl.h"

namespace flashbert::cpu {
namespace {

constexpr RowKernels kTable = {
    .dropout_row = dropout_row,
    .add_row = {add_row<float>, add_row<Half>},
    .embedding_row = {embedding_row<float>, embedding_row<Half>},
    .normalise_row = {normalise_row<float>, normalise_row<Half>},
    .norm_gradient_block = {norm_gradient_block<float>, norm_gradient_block<Half>},
    .sum_rows = {sum_rows<float>, sum_rows<Half>},
    .gelu_forward = {gelu_forward<float>, gelu_forward<Half>},
    .gelu_backward = {gelu_backward<float>, gelu_backward<Half>},
    .tanh_forward = {tanh_forward<float>, tanh_forward<Half>},
    .tanh_backward = {tanh_backward<float>, tanh_backward<Half>},
    .add = {add<float>, add<Half>},
    .cast = {{cast<float, float>, cast<float, Half>}, {cast<Half, float>, cast<Half, Half>}},
    .scaled_copy = scaled_copy,
    .cross_entropy_row = {cross_entropy_row<float>, cross_entropy_row<Half>},
    .sum_of_squares = sum_of_squares,
    .lamb_moments = lamb_moments,
    .lamb_apply = lamb_apply,
};

}  // namespace
}  // namespace flashbert::cpu
