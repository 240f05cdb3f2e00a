#pragma once

// Declarations only: sources with instruction-set flags include this (tests/layers).
namespace flashbert::cpu {

// One burst of so many rounds; returns the operations done. sums: 16 different floats, overwritten, which keeps the work alive.
double fma_burst_avx2(long rounds, float* sums);
double fma_burst_avx512(long rounds, float* sums);
double bf16_burst_avx512_bf16(long rounds, float* sums);

}  // namespace flashbert::cpu
