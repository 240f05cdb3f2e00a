#pragma once

#include "core/context.h"
#include "core/dtype.h"

namespace flashbert {

/// Operations a second (a multiply and an add count two) of multiply-adds of this type that stay in registers, on all of the context's
/// device, measured now: the yardstick of every share of the peak. Throws EnvironmentError for bf16 where the device has no products of it,
/// DtypeError for types other than f32 and bf16.
double measured_peak_flops(const Context& context, Dtype dtype);

/// Bytes a second that one thread of the host moves between arrays far larger than its caches (a[i] = b[i] + s c[i], three streams
/// counted).
double measured_host_bandwidth();

}  // namespace flashbert
