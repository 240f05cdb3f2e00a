#pragma once

/// Stands before a function that host and device code call alike.
#if defined(__CUDACC__)
#define FLASHBERT_HOST_DEVICE __host__ __device__
#else
#define FLASHBERT_HOST_DEVICE
#endif
