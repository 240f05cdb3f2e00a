#pragma once

#include <cstdint>

namespace flashbert::cpu {

/// Serial kernels over rows, flat ranges and chunks, one table an instruction set. The files of each op family (layer_norm.cpp, ...)
/// cut the work into fixed pieces and share the pieces among threads; these functions see raw pointers only, so that nothing else is
/// compiled for a processor that may not be there. Element types: 0 = f32, 1 = bf16 (index of the tables below).

/// Dropout of one row: counter words of the row and the rule. keep points at the row's keep bytes (one an 8-column block).
struct RowDropout {
  std::uint32_t key0 = 0, key1 = 0, counter0 = 0, counter1 = 0, counter2 = 0, position = 0, threshold = 0;
  float keep_scale = 1.0F;
};

/// The row in f32 (columns) and the sum of its values; y and z in the element type.
struct NormaliseRow {
  const float* row = nullptr;
  float sum = 0.0F;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  void* y = nullptr;
  void* z = nullptr;                   ///< may be null
  const std::uint8_t* keep = nullptr;  ///< mask of y; null = none
  float keep_scale = 1.0F;
  float eps = 0.0F;
  std::int64_t columns = 0;
  float mean = 0.0F, rstd = 0.0F;  ///< out
};

/// Rows [0, rows) of the gradients of a norm; strides in elements of the tensor, of keep bits in bytes.
struct NormGradientBlock {
  void* dz = nullptr;
  void* dx = nullptr;  ///< may be null
  const void* dy = nullptr;
  const void* z = nullptr;
  std::int64_t dz_stride = 0, dx_stride = 0, dy_stride = 0, z_stride = 0, keep_stride = 0;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  const float* gamma = nullptr;
  float* dgamma = nullptr;  ///< partial sums, added to
  float* dbeta = nullptr;
  const std::uint8_t* keep_of_output = nullptr;  ///< mask of y (embeddings); null = none
  const std::uint8_t* keep_of_input = nullptr;   ///< mask of x; null = none
  float keep_scale = 1.0F;
  std::int64_t rows = 0, columns = 0;
};

/// out[c] += sum over k in [0, count) of dz[order[k], c], summed in blocks of 64 rows.
struct SumRows {
  float* out = nullptr;
  const void* dz = nullptr;
  std::int64_t row_stride = 0;  ///< elements
  const std::int32_t* order = nullptr;
  std::int64_t count = 0, columns = 0;
};

struct CrossEntropyRow {
  void* logits = nullptr;
  std::int64_t classes = 0, columns = 0;
  std::int32_t label = 0;
  float scale = 0.0F;
  bool gradient = false;
  double nll = 0.0;      ///< out
  bool correct = false;  ///< out
};

struct LambScalars {
  float clip_scale = 1.0F, beta1 = 0.0F, beta2 = 0.0F, one_minus_beta1 = 1.0F, one_minus_beta2 = 1.0F;
  float inverse_correction1 = 1.0F, inverse_root_correction2 = 1.0F, epsilon = 0.0F, decay = 0.0F;
};
struct LambChunk {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  void* compute = nullptr;  ///< bf16 copy or null
  std::int64_t elements = 0;
  LambScalars scalars;
  double weight_squares = 0.0, update_squares = 0.0;  ///< out of lamb_moments
  float step = 0.0F;                                  ///< ratio * learning rate, for lamb_apply
};

struct RowKernels {
  /// Keep bytes of a row's ceil(columns / 8) blocks; `keep` must have room for a multiple of 16 bytes.
  void (*dropout_row)(const RowDropout&, std::int64_t columns, std::uint8_t* keep);
  /// row = residual + keep(x) * scale; residual and keep may be null. Returns the sum of the row.
  float (*add_row[2])(float* row, const void* x, const void* residual, const std::uint8_t* keep, float keep_scale, std::int64_t columns);
  /// row = word + position + segment. Returns the sum of the row.
  float (*embedding_row[2])(float* row, const void* word, const void* position, const void* segment, std::int64_t columns);
  void (*normalise_row[2])(NormaliseRow&);
  void (*norm_gradient_block[2])(const NormGradientBlock&);
  void (*sum_rows[2])(const SumRows&);
  void (*gelu_forward[2])(void* y, const void* x, std::int64_t elements);
  void (*gelu_backward[2])(void* dx, const void* dy, const void* x, std::int64_t elements);
  void (*tanh_forward[2])(void* y, const void* x, std::int64_t elements);
  void (*tanh_backward[2])(void* dx, const void* dy, const void* y, std::int64_t elements);
  void (*add[2])(void* out, const void* in, std::int64_t elements);
  void (*cast[2][2])(void* to, const void* from, std::int64_t elements);  ///< [from][to]
  void (*scaled_copy)(float* y, const float* x, float scale, bool accumulate, std::int64_t elements);
  void (*cross_entropy_row[2])(CrossEntropyRow&);
  double (*sum_of_squares)(const float* x, std::int64_t elements);
  void (*lamb_moments)(LambChunk&);
  void (*lamb_apply)(LambChunk&);
};

extern const RowKernels kRowKernelsAvx2;
extern const RowKernels kRowKernelsAvx512;
extern const RowKernels kRowKernelsAvx512Bf16;

}  // namespace flashbert::cpu
