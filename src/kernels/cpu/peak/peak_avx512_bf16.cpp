#include <immintrin.h>

#include "kernels/cpu/peak/bursts.h"

namespace flashbert::cpu {

// Sixteen sums cover two units x a latency of six; each has a name, because compilers spill arrays of registers.
double bf16_burst_avx512_bf16(long rounds, float* sums) {
  // Values from memory, each sum its own: the compiler can neither fold the loop nor merge the sums.
  const __m512bh left = _mm512_cvtne2ps_pbh(_mm512_set1_ps(sums[1]), _mm512_set1_ps(sums[1]));
  const __m512bh right = _mm512_cvtne2ps_pbh(_mm512_set1_ps(sums[2]), _mm512_set1_ps(sums[2]));
  __m512 sum0 = _mm512_set1_ps(sums[0]);
  __m512 sum1 = _mm512_set1_ps(sums[1]);
  __m512 sum2 = _mm512_set1_ps(sums[2]);
  __m512 sum3 = _mm512_set1_ps(sums[3]);
  __m512 sum4 = _mm512_set1_ps(sums[4]);
  __m512 sum5 = _mm512_set1_ps(sums[5]);
  __m512 sum6 = _mm512_set1_ps(sums[6]);
  __m512 sum7 = _mm512_set1_ps(sums[7]);
  __m512 sum8 = _mm512_set1_ps(sums[8]);
  __m512 sum9 = _mm512_set1_ps(sums[9]);
  __m512 sum10 = _mm512_set1_ps(sums[10]);
  __m512 sum11 = _mm512_set1_ps(sums[11]);
  __m512 sum12 = _mm512_set1_ps(sums[12]);
  __m512 sum13 = _mm512_set1_ps(sums[13]);
  __m512 sum14 = _mm512_set1_ps(sums[14]);
  __m512 sum15 = _mm512_set1_ps(sums[15]);
  for (long round = 0; round < rounds; ++round) {
    sum0 = _mm512_dpbf16_ps(sum0, left, right);
    sum1 = _mm512_dpbf16_ps(sum1, left, right);
    sum2 = _mm512_dpbf16_ps(sum2, left, right);
    sum3 = _mm512_dpbf16_ps(sum3, left, right);
    sum4 = _mm512_dpbf16_ps(sum4, left, right);
    sum5 = _mm512_dpbf16_ps(sum5, left, right);
    sum6 = _mm512_dpbf16_ps(sum6, left, right);
    sum7 = _mm512_dpbf16_ps(sum7, left, right);
    sum8 = _mm512_dpbf16_ps(sum8, left, right);
    sum9 = _mm512_dpbf16_ps(sum9, left, right);
    sum10 = _mm512_dpbf16_ps(sum10, left, right);
    sum11 = _mm512_dpbf16_ps(sum11, left, right);
    sum12 = _mm512_dpbf16_ps(sum12, left, right);
    sum13 = _mm512_dpbf16_ps(sum13, left, right);
    sum14 = _mm512_dpbf16_ps(sum14, left, right);
    sum15 = _mm512_dpbf16_ps(sum15, left, right);
  }
  sum0 = _mm512_add_ps(sum0, sum1);
  sum0 = _mm512_add_ps(sum0, sum2);
  sum0 = _mm512_add_ps(sum0, sum3);
  sum0 = _mm512_add_ps(sum0, sum4);
  sum0 = _mm512_add_ps(sum0, sum5);
  sum0 = _mm512_add_ps(sum0, sum6);
  sum0 = _mm512_add_ps(sum0, sum7);
  sum0 = _mm512_add_ps(sum0, sum8);
  sum0 = _mm512_add_ps(sum0, sum9);
  sum0 = _mm512_add_ps(sum0, sum10);
  sum0 = _mm512_add_ps(sum0, sum11);
  sum0 = _mm512_add_ps(sum0, sum12);
  sum0 = _mm512_add_ps(sum0, sum13);
  sum0 = _mm512_add_ps(sum0, sum14);
  sum0 = _mm512_add_ps(sum0, sum15);
  _mm512_storeu_ps(sums, sum0);
  return static_cast<double>(rounds) * 16 * 32 * 2;
}

}  // namespace flashbert::cpu
