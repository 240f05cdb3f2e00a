#pragma once

#include <array>
#include <vector>

#include "op_test.h"
#include "reference/linear.h"

namespace flashbert::testing {

/// Odd, tiny and empty extents, several row tiles, and sums over more rows than one block of a weight gradient.
inline constexpr std::array<reference::LinearExtents, 9> kLinearExtents{
    {{1, 8, 8}, {0, 16, 8}, {33, 70, 130}, {7, 1, 3}, {1, 3, 1}, {64, 64, 64}, {130, 96, 200}, {300, 40, 72}, {1100, 24, 40}}};

struct LinearCase {
  reference::LinearExtents e;
  std::vector<double> x, weight, bias, dy, old_dx, old_dweight, old_dbias;
  LinearCase(const reference::LinearExtents& extents, Dtype dtype, std::uint64_t seed) : e(extents) {
    RandomValues random(seed);
    x = random.values(as_extent(e.rows * e.in), dtype);
    weight = random.values(as_extent(e.out * e.in), dtype);
    bias = random.values(as_extent(e.out), Dtype::kF32);
    dy = random.values(as_extent(e.rows * e.out), dtype);
    old_dx = random.values(as_extent(e.rows * e.in), dtype);
    old_dweight = random.values(as_extent(e.out * e.in), Dtype::kF32);
    old_dbias = random.values(as_extent(e.out), Dtype::kF32);
  }
  [[nodiscard]] Shape x_shape() const { return {as_extent(e.rows), as_extent(e.in)}; }
  [[nodiscard]] Shape y_shape() const { return {as_extent(e.rows), as_extent(e.out)}; }
  [[nodiscard]] Shape weight_shape() const { return {as_extent(e.out), as_extent(e.in)}; }
};

/// Weights on a device with their pack.
class PackedWeights {
 public:
  PackedWeights(const TestDevice& device, Dtype dtype, const LinearCase& c)
      : weight_(device, dtype, c.weight_shape(), c.weight),
        pack_(device, Dtype::kU8,
              {device.ops().linear_pack_bytes({.in = as_extent(c.e.in),
                                               .out = as_extent(c.e.out),
                                               .max_rows = as_extent(c.e.rows),
                                               .compute = dtype,
                                               .training = true})}) {
    device.ops().linear_pack({.weights = weights()});
  }
  [[nodiscard]] LinearWeights weights() const { return {weight_, pack_.view().elements() > 0 ? pack_.view() : Tensor()}; }

 private:
  DeviceTensor weight_;
  DeviceTensor pack_;
};

}  // namespace flashbert::testing
