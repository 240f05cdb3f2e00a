#pragma once

#include <cmath>
#include <vector>

#include "op_test.h"
#include "reference/optimizer.h"

namespace flashbert::testing {

/// One parameter of a LAMB test, in double.
struct LambTensor {
  reference::LambState<double> state;
  std::vector<double> gradient;
  bool decay = true;
};

struct LambSettings {
  double learning_rate = 0.01, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01, clip_scale = 1.0;
  double step = 1.0;
  std::int32_t first_bad = -1;
};

/// A double as it is after it was stored in f32.
inline Estimate as_f32(double value) { return stored(Estimate(value), Dtype::kF32); }

/// Scalars that the device holds in f32 carry that rounding; the betas are f64 there, but used in f32 arithmetic.
inline reference::LambRates<Estimate> estimated_rates(const LambSettings& s, bool decay) {
  const auto correction = [&](double beta) { return as_f32(1.0 - std::pow(beta, s.step)); };
  return {.learning_rate = as_f32(s.learning_rate),
          .bias_correction1 = correction(s.beta1),
          .bias_correction2 = correction(s.beta2),
          .clip_scale = as_f32(s.clip_scale),
          .beta1 = Estimate(s.beta1),
          .beta2 = Estimate(s.beta2),
          .epsilon = as_f32(s.epsilon),
          .weight_decay = as_f32(s.weight_decay),
          .decay = decay};
}

/// 1 - beta must be formed in double and rounded once: computed in f32 from beta2 = 0.999 it would be off by 3e-5.
inline reference::LambResult<Estimate> expected_lamb(const LambSettings& s, const LambTensor& t) {
  const reference::LambState<Estimate> old{exact(t.state.weight), exact(t.state.m), exact(t.state.v)};
  return reference::lamb_update(estimated_rates(s, t.decay), old, exact(t.gradient));
}

/// All tensors of a LAMB test on a device; update() runs the op.
class LambOnDevice {
 public:
  LambOnDevice(const TestDevice& device, const std::vector<LambTensor>& tensors)
      : device_(device),
        norms_(device, Dtype::kF32, {as_extent(tensors.size())}),
        update_norms_(device, Dtype::kF32, {as_extent(tensors.size())}),
        ratios_(device, Dtype::kF32, {as_extent(tensors.size())}) {
    for (const LambTensor& t : tensors) {
      const Shape shape{as_extent(t.gradient.size())};
      for (const std::vector<double>* values : {&t.state.weight, &t.state.m, &t.state.v, &t.gradient}) {
        memory_.push_back(std::make_unique<DeviceTensor>(device, Dtype::kF32, shape, *values));
      }
      memory_.push_back(std::make_unique<DeviceTensor>(device, Dtype::kBf16, shape));
      decay_.push_back(t.decay);
    }
  }

  void update(const LambSettings& s) {
    const auto bias_correction = [&](double beta) { return 1.0 - std::pow(beta, s.step); };
    const DeviceTensor scalars(device_, Dtype::kF32, {kLambScalars},
                               std::vector<double>{s.learning_rate, bias_correction(s.beta1), bias_correction(s.beta2)});
    const DeviceTensor clip_scale(device_, Dtype::kF32, {1}, std::vector<double>{s.clip_scale});
    const DeviceTensor first_bad(device_, Dtype::kI32, {1}, std::vector<double>{static_cast<double>(s.first_bad)});
    std::vector<LambParameter> parameters;
    for (std::size_t i = 0; i < decay_.size(); ++i) {
      parameters.push_back({.weight = part(i, kWeight),
                            .m = part(i, kM),
                            .v = part(i, kV),
                            .compute = part(i, kCompute),
                            .gradient = part(i, kGradient),
                            .decay = decay_[i]});
    }
    device_.ops().lamb_update({.parameters = parameters,
                               .scalars = scalars,
                               .clip_scale = clip_scale,
                               .first_bad = first_bad,
                               .weight_norm = norms_,
                               .update_norm = update_norms_,
                               .trust_ratio = ratios_,
                               .beta1 = s.beta1,
                               .beta2 = s.beta2,
                               .epsilon = static_cast<float>(s.epsilon),
                               .weight_decay = static_cast<float>(s.weight_decay)});
  }

  enum Part : std::size_t { kWeight, kM, kV, kGradient, kCompute, kParts };
  [[nodiscard]] const DeviceTensor& part(std::size_t tensor, Part which) const { return *memory_[tensor * kParts + which]; }
  [[nodiscard]] double weight_norm(std::size_t tensor) const { return norms_.values()[tensor]; }
  [[nodiscard]] double update_norm(std::size_t tensor) const { return update_norms_.values()[tensor]; }
  [[nodiscard]] double trust_ratio(std::size_t tensor) const { return ratios_.values()[tensor]; }
  /// Everything the op may write.
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> bytes;
    for (const auto& tensor : memory_) append(bytes, *tensor);
    for (const DeviceTensor* tensor : {&norms_, &update_norms_, &ratios_}) append(bytes, *tensor);
    return bytes;
  }

 private:
  const TestDevice& device_;
  std::vector<std::unique_ptr<DeviceTensor>> memory_;
  DeviceTensor norms_, update_norms_, ratios_;
  std::vector<bool> decay_;
};

inline void expect_lamb(const LambOnDevice& got, std::size_t tensor, const reference::LambResult<Estimate>& want, const std::string& what) {
  expect_close(got.part(tensor, LambOnDevice::kM).values(), want.state.m, what + " m");
  expect_close(got.part(tensor, LambOnDevice::kV).values(), want.state.v, what + " v");
  expect_close({got.weight_norm(tensor), got.update_norm(tensor), got.trust_ratio(tensor)},
               stored({want.weight_norm, want.update_norm, want.trust_ratio}, Dtype::kF32), what + " norms and ratio");
  const std::vector<double> weight = got.part(tensor, LambOnDevice::kWeight).values();
  expect_close(weight, want.state.weight, what + " weight");
  EXPECT_EQ(got.part(tensor, LambOnDevice::kCompute).values(), rounded(weight, Dtype::kBf16)) << what;
}

}  // namespace flashbert::testing
