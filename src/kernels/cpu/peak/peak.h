#pragma once

#include "core/cpu/cpu_context.h"
#include "core/dtype.h"

namespace flashbert::cpu {

/// Multiply-adds that do nothing but keep the units busy: the yardstick of every "% of peak". A burst runs on each of `threads` threads
/// for about 2 ms and is repeated; the best repetition counts, because whatever else runs on the cores only slows one down.
struct PeakOptions {
  int threads = 1;
  int repetitions = 10;
};

/// 10^9 operations per second (a multiply and an add count two) of independent FMAs (f32), or of pair dot products vdpbf16ps (bf16), in the
/// widest registers the context's instruction set has. Throws EnvironmentError for bf16 where has_bf16() is false, DtypeError for
/// other types, ConfigError for threads or repetitions below 1.
double peak_gflops(const CpuContext& context, Dtype dtype, const PeakOptions& options);

/// 10^9 bytes per second of a[i] = b[i] + s * c[i] over f32 arrays of 64 MiB for each thread (far larger than a share of the last-level
/// cache); three streams are counted, the read that fills a before it is written is not. Source: McCalpin, STREAM.
double triad_gbytes_per_second(CpuContext& context, const PeakOptions& options);

}  // namespace flashbert::cpu
