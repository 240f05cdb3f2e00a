#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/host_device.h"
#include "core/philox.h"
#include "kernels/formula_constants.h"

/// Scalar formulas shared by every backend, so that masks are bit-equal and functions are the same on host and device.
namespace flashbert {

inline constexpr float kBertLayerNormEps = 1e-12F;

// ---- GELU, tanh form (formula_constants.h), as x sigmoid(2u): no difference of close numbers. A backend calls these or has a form of its
// own that agrees within the roundings of f32.

/// exp(-2u) for |x| <= kGeluLimit.
FLASHBERT_HOST_DEVICE inline float gelu_tail(float x) { return std::exp(-2.0F * kGeluSqrt2OverPi * x * (1.0F + kGeluCubic * x * x)); }

/// 0 below -kGeluLimit; NaN for NaN.
FLASHBERT_HOST_DEVICE inline float gelu(float x) {
  if (x < -kGeluLimit) return 0.0F;
  return x / (1.0F + gelu_tail(x > kGeluLimit ? kGeluLimit : x));
}

/// d gelu / dx = s + x s (1 - s) d(2u)/dx with s = sigmoid(2u), 1 - s = exp(-2u) s.
FLASHBERT_HOST_DEVICE inline float gelu_slope(float x) {
  if (x < -kGeluLimit) return 0.0F;
  const float bounded = x > kGeluLimit ? kGeluLimit : x;
  const float tail = gelu_tail(bounded);
  const float sigmoid = 1.0F / (1.0F + tail);
  const float twice_u_slope = 2.0F * kGeluSqrt2OverPi * (1.0F + 3.0F * kGeluCubic * bounded * bounded);
  return sigmoid + bounded * sigmoid * (tail * sigmoid) * twice_u_slope;
}

// ---- Dropout. Decisions are 16-bit words of Philox4x32-10: key = seed, counter = (running sample index as two words, layer / site
// / head, position << 16 | block). A word below the threshold drops. The kept values are scaled by the true keep fraction.
enum class DropoutSite : std::uint32_t { kEmbeddings = 0, kAttention = 1, kAttentionOutput = 2, kFeedForwardOutput = 3 };

/// Which mask: seed, layer (0 for the embeddings) and site; rate 0 = no dropout.
struct Dropout {
  float rate = 0.0F;
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;
  DropoutSite site = DropoutSite::kEmbeddings;

  /// Words below this drop: rate in units of 2^-16, rounded to nearest.
  [[nodiscard]] FLASHBERT_HOST_DEVICE constexpr std::uint32_t threshold() const {
    // The library's rounding functions are neither constexpr nor there on a device; rate is not negative.
    return static_cast<std::uint32_t>(rate * 65536.0F + 0.5F);  // NOLINT(bugprone-incorrect-roundings)
  }
  [[nodiscard]] FLASHBERT_HOST_DEVICE constexpr bool active() const { return threshold() > 0; }
  /// 1 / (fraction of words kept).
  [[nodiscard]] FLASHBERT_HOST_DEVICE constexpr float keep_scale() const { return 65536.0F / static_cast<float>(65536U - threshold()); }
  [[nodiscard]] FLASHBERT_HOST_DEVICE constexpr Philox::Key key() const {
    return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  }
  /// Counter of one call. Attention: position = query row's position, block = column / 32 * 4 + t (see attention_word); hidden:
  /// position = the token's position, block = column / 8, head = 0.
  [[nodiscard]] FLASHBERT_HOST_DEVICE constexpr Philox::Counter counter(std::uint64_t sample_index, std::uint32_t head,
                                                                        std::uint32_t position, std::uint32_t block) const {
    return {static_cast<std::uint32_t>(sample_index), static_cast<std::uint32_t>(sample_index >> 32),
            (layer << 20) | (static_cast<std::uint32_t>(site) << 16) | head, (position << 16) | block};
  }
};

/// Word w (0..7) of a call: the low half of a 32-bit output comes first.
FLASHBERT_HOST_DEVICE constexpr std::uint32_t dropout_word(const Philox::Counter& random, int w) {
  return (random[static_cast<std::size_t>(w / 2)] >> (16 * (w % 2))) & 0xffffU;
}

/// Attention: column c of a 32-column block is decided by call t = (c % 8) / 2 and word w = (c / 8) * 2 + c % 2: one call holds
/// columns {2t, 2t + 1} + 8 j, j = 0..3, which is what one thread of an mma tile holds. Hidden: column c is word c % 8 of block c / 8.
FLASHBERT_HOST_DEVICE constexpr int attention_call(int column) { return (column % 8) / 2; }
FLASHBERT_HOST_DEVICE constexpr int attention_word(int column) { return (column % 32) / 8 * 2 + column % 2; }

}  // namespace flashbert
