#pragma once

// Constants of kernels/formulas.h and nothing else: sources with instruction-set flags include this (tests/layers).
namespace flashbert {

/// GELU, tanh form: 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3). Source: google-research/bert modeling.py.
inline constexpr float kGeluSqrt2OverPi = 0.7978845608028654F;
inline constexpr float kGeluCubic = 0.044715F;
/// Beyond it GELU is x or 0 in f32, and exp(-2u) would leave the range of f32 (2u = 87.3 at 10).
inline constexpr float kGeluLimit = 10.0F;

}  // namespace flashbert
