#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "op_test.h"

namespace flashbert::testing {

/// Tensors of every shape the tests below need; the memory is never looked at, since each call must be refused before.
class ValidationTest : public OpTest {
 protected:
  /// The call throws an E whose message names op and argument and, where given, says what was wanted.
  template <class E, class Call>
  static void expect_refused(const Call& call, const char* op, const char* argument, const char* wanted = "") {
    using ::testing::HasSubstr;
    EXPECT_THAT(message_of<E>(call), ::testing::AllOf(HasSubstr(op), HasSubstr(argument), HasSubstr(wanted)));
  }

  DeviceTensor rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor other_rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor third_rows_{device(), Dtype::kF32, {4, 16}};
  DeviceTensor bf16_rows_{device(), Dtype::kBf16, {4, 16}};
  DeviceTensor wide_rows_{device(), Dtype::kF32, {4, 24}};
  DeviceTensor odd_rows_{device(), Dtype::kF32, {4, 12}};
  DeviceTensor gapped_rows_{device(), Dtype::kF32, {4, 16}, RowGap{8}};
  DeviceTensor square_{device(), Dtype::kF32, {16, 16}};
  DeviceTensor hidden_{device(), Dtype::kF32, {16}};
  DeviceTensor other_hidden_{device(), Dtype::kF32, {16}};
  DeviceTensor tokens_{device(), Dtype::kF32, {4}};
  DeviceTensor other_tokens_{device(), Dtype::kF32, {4}};
  DeviceTensor ids_{device(), Dtype::kI32, {4}};
  DeviceTensor few_ids_{device(), Dtype::kI32, {3}};
  DeviceTensor one_{device(), Dtype::kF32, {1}};
  DeviceTensor one_i32_{device(), Dtype::kI32, {1}};
  DeviceTensor one_i64_{device(), Dtype::kI64, {1}};
  DeviceTensor other_i64_{device(), Dtype::kI64, {1}};
  DeviceTensor one_f64_{device(), Dtype::kF64, {1}};
  DeviceTensor scalars_{device(), Dtype::kF32, {kLambScalars}};
  DeviceTensor samples_{device(), Dtype::kU64, {1}};
};

}  // namespace flashbert::testing
