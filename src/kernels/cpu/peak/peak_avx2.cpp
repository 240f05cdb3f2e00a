#include <immintrin.h>

#include "kernels/cpu/peak/bursts.h"

namespace flashbert::cpu {

// Twelve sums cover two units x a latency of five; each has a name, because compilers spill arrays of registers.
double fma_burst_avx2(long rounds, float* sums) {
  // Values from memory, each sum its own: the compiler can neither fold the loop nor merge the sums.
  const __m256 factor = _mm256_set1_ps(sums[1]);
  const __m256 term = _mm256_set1_ps(sums[2]);
  __m256 sum0 = _mm256_set1_ps(sums[0]);
  __m256 sum1 = _mm256_set1_ps(sums[1]);
  __m256 sum2 = _mm256_set1_ps(sums[2]);
  __m256 sum3 = _mm256_set1_ps(sums[3]);
  __m256 sum4 = _mm256_set1_ps(sums[4]);
  __m256 sum5 = _mm256_set1_ps(sums[5]);
  __m256 sum6 = _mm256_set1_ps(sums[6]);
  __m256 sum7 = _mm256_set1_ps(sums[7]);
  __m256 sum8 = _mm256_set1_ps(sums[8]);
  __m256 sum9 = _mm256_set1_ps(sums[9]);
  __m256 sum10 = _mm256_set1_ps(sums[10]);
  __m256 sum11 = _mm256_set1_ps(sums[11]);
  for (long round = 0; round < rounds; ++round) {
    sum0 = _mm256_fmadd_ps(sum0, factor, term);
    sum1 = _mm256_fmadd_ps(sum1, factor, term);
    sum2 = _mm256_fmadd_ps(sum2, factor, term);
    sum3 = _mm256_fmadd_ps(sum3, factor, term);
    sum4 = _mm256_fmadd_ps(sum4, factor, term);
    sum5 = _mm256_fmadd_ps(sum5, factor, term);
    sum6 = _mm256_fmadd_ps(sum6, factor, term);
    sum7 = _mm256_fmadd_ps(sum7, factor, term);
    sum8 = _mm256_fmadd_ps(sum8, factor, term);
    sum9 = _mm256_fmadd_ps(sum9, factor, term);
    sum10 = _mm256_fmadd_ps(sum10, factor, term);
    sum11 = _mm256_fmadd_ps(sum11, factor, term);
  }
  sum0 = _mm256_add_ps(sum0, sum1);
  sum0 = _mm256_add_ps(sum0, sum2);
  sum0 = _mm256_add_ps(sum0, sum3);
  sum0 = _mm256_add_ps(sum0, sum4);
  sum0 = _mm256_add_ps(sum0, sum5);
  sum0 = _mm256_add_ps(sum0, sum6);
  sum0 = _mm256_add_ps(sum0, sum7);
  sum0 = _mm256_add_ps(sum0, sum8);
  sum0 = _mm256_add_ps(sum0, sum9);
  sum0 = _mm256_add_ps(sum0, sum10);
  sum0 = _mm256_add_ps(sum0, sum11);
  _mm256_storeu_ps(sums, sum0);
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

}  // namespace flashbert::cpu
