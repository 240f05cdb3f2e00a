#pragma once

#include <cstdint>

namespace flashbert::cpu {

/// Keys that the forward pass packs and works on at once: the packed forms of a block stay in the second-level cache.
inline constexpr std::int64_t kKeyBlock = 512;
/// The same for the backward pass, which holds three packed forms, two gradients, and P and dS of a tile of rows besides.
inline constexpr std::int64_t kBackwardKeys = 256;
/// Most query rows of a tile of the backward pass.
inline constexpr std::int64_t kMostBackwardRows = 96;

/// One (sequence, head) of the batch, as raw pointers (row strides in elements). The element type is the kernel's.
struct AttentionItem {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  std::int64_t query_stride = 0, key_stride = 0, value_stride = 0;
  std::int64_t queries = 0, keys = 0, head_dim = 0;
  float scale = 0.0F;
  // Dropout; threshold 0 = none. keep: words of query row 0, keep_stride words from row to row.
  std::uint32_t threshold = 0, key0 = 0, key1 = 0, counter0 = 0, counter1 = 0, counter2 = 0;
  float keep_scale = 1.0F;
  const std::int32_t* query_position = nullptr;
  std::uint32_t* keep = nullptr;
  std::int64_t keep_stride = 0;
  float* lse = nullptr;  ///< of query row 0, row after row
  // Forward.
  void* out = nullptr;
  std::int64_t out_stride = 0;
  // Backward (out and lse are read).
  const void* dout = nullptr;
  void* dquery = nullptr;
  void* dkey = nullptr;
  void* dvalue = nullptr;
  std::int64_t dout_stride = 0, dquery_stride = 0, dkey_stride = 0, dvalue_stride = 0;
};

/// Serial kernels of one instruction set; [0] = f32, [1] = bf16. scratch, on a cache line, has the bytes that
/// attention_scratch_bytes counts for a thread.
struct AttentionKernels {
  void (*forward[2])(const AttentionItem&, void* scratch);
  void (*backward[2])(const AttentionItem&, void* scratch);
};

extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionKernels kAttentionAvx512Bf16;

}  // namespace flashbert::cpu
