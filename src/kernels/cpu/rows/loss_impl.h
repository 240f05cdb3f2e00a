// Softmax cross-entropy of one row.
#pragma once

#include "kernels/cpu/rows/kernels.h"
#include "kernels/cpu/rows/vectors_impl.h"

namespace flashbert::cpu {
namespace {

inline VecF fill_rest(VecF x, float /*filler*/, Whole) { return x; }
/// x with the filler in the lanes not touched.
inline VecF fill_rest(VecF x, float filler, Part part) {
  alignas(64) float lanes[kLanes];
  store(lanes, x);
  for (std::int64_t i = part.count; i < kLanes; ++i) lanes[i] = filler;
  return load(lanes);
}

template <class T>
float largest_of(const T* x, std::int64_t classes) {
  VecF largest[4];
  for (VecF& lanes : largest) lanes = splat(-__builtin_inff());
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= classes; c += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) largest[i] = max(load_lanes(x + c + i * kLanes, Whole{}), largest[i]);
  }
  for_columns(classes - c, [&](auto lanes, std::int64_t i) {
    largest[0] = max(fill_rest(load_lanes(x + c + i, lanes), -__builtin_inff(), lanes), largest[0]);
  });
  return max_lanes(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
}

/// Sum of exp(x - maximum). Eight vectors are added in f32, then in f64: the sum of 30,522 terms keeps f32 accuracy.
template <class T>
double sum_of_exponentials(const T* x, std::int64_t classes, float maximum) {
  VecD low = zero_double();
  VecD high = zero_double();
  const auto add = [&](VecF sum) {
    low = low + low_double(sum);
    high = high + high_double(sum);
  };
  std::int64_t c = 0;
  for (; c + 8 * kLanes <= classes; c += 8 * kLanes) {
    VecF sum = zero();
    for (int i = 0; i < 8; ++i) sum = sum + exp_nonpositive(load_lanes(x + c + i * kLanes, Whole{}) - splat(maximum));
    add(sum);
  }
  for_columns(classes - c,
              [&](auto lanes, std::int64_t i) { add(zero_rest(exp_nonpositive(load_lanes(x + c + i, lanes) - splat(maximum)), lanes)); });
  return sum_double(low) + sum_double(high);
}

/// Whether one of the first `count` logits equals `wanted`.
template <class T>
bool holds(const T* x, std::int64_t count, float wanted) {
  bool found = false;
  for_columns(count, [&](auto lanes, std::int64_t c) {
    found = found || max_lanes(fill_rest(load_lanes(x + c, lanes), -__builtin_inff(), lanes)) == wanted;
  });
  return found;
}

template <class T>
void cross_entropy_row(CrossEntropyRow& a) {
  T* const x = static_cast<T*>(a.logits);
  const float maximum = largest_of(x, a.classes);
  const double total = sum_of_exponentials(x, a.classes, maximum);
  const VecF label_lanes = load_part(x + a.label, 1);
  alignas(64) float values[kLanes];
  store(values, label_lanes);
  const float label_logit = values[0];
  a.nll = __builtin_log(total) - (static_cast<double>(label_logit) - static_cast<double>(maximum));
  // The largest is below or equal to itself in all columns, so the label is its first column if no earlier one equals it.
  a.correct = label_logit == maximum && !holds(x, a.label, maximum);
  if (!a.gradient) return;
  const VecF factor = splat(static_cast<float>(static_cast<double>(a.scale) / total));
  const auto gradient = [&](VecF logits) { return exp_nonpositive(logits - splat(maximum)) * factor; };
  const VecF label_gradient = gradient(label_lanes) - splat(a.scale);
  for_columns(a.classes, [&](auto lanes, std::int64_t c) { store_lanes(x + c, gradient(load_lanes(x + c, lanes)), lanes); });
  store_part(x + a.label, label_gradient, 1);
  T* const padding = x + a.classes;
  for_columns(a.columns - a.classes, [&](auto lanes, std::int64_t c) { store_lanes(padding + c, zero(), lanes); });
}

}  // namespace
}  // namespace flashbert::cpu
