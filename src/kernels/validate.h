#pragma once

#include <initializer_list>

#include "core/tensor.h"

namespace flashbert {

/// Checks of one op's arguments; messages name op and argument, what is wanted and what came. The good path builds no text.
class ArgumentCheck {
 public:
  explicit ArgumentCheck(const char* op) : op_(op) {}

  void present(const char* name, const ConstTensor& tensor) const {
    if (!tensor) fail_shape(name, "is absent");
  }
  void dtype(const char* name, const ConstTensor& tensor, Dtype wanted) const {
    if (tensor.dtype() != wanted) fail_dtype(name, tensor.dtype(), name_of(wanted));
  }
  /// f32 or bf16.
  void compute_dtype(const char* name, const ConstTensor& tensor) const {
    if (tensor.dtype() != Dtype::kF32 && tensor.dtype() != Dtype::kBf16) fail_dtype(name, tensor.dtype(), "f32 or bf16");
  }
  void shape(const char* name, const ConstTensor& tensor, const Shape& wanted) const {
    if (!(tensor.shape() == wanted)) fail_shape(name, fmt::format("has shape {}, not {}", tensor.shape().text(), wanted.text()));
  }
  void rank(const char* name, const ConstTensor& tensor, int wanted) const {
    if (tensor.rank() != wanted) fail_shape(name, fmt::format("has {} axes, not {}", tensor.rank(), wanted));
  }
  void contiguous(const char* name, const ConstTensor& tensor) const {
    if (!tensor.contiguous()) fail_shape(name, fmt::format("has a row stride of {}; it must be contiguous", tensor.row_stride()));
  }
  /// Present, of two axes, f32 or bf16.
  void matrix(const char* name, const ConstTensor& t) const {
    present(name, t);
    rank(name, t, 2);
    compute_dtype(name, t);
  }
  /// Present, of two axes with so many columns, of this type.
  void matrix(const char* name, const ConstTensor& t, Dtype wanted, std::int64_t columns) const {
    present(name, t);
    rank(name, t, 2);
    dtype(name, t, wanted);
    shape(name, t, {t.extent(0), columns});
  }
  /// Present, of one axis of any extent, of this type, contiguous.
  void list(const char* name, const ConstTensor& t, Dtype wanted) const {
    present(name, t);
    rank(name, t, 1);
    dtype(name, t, wanted);
    contiguous(name, t);
  }
  /// Present, of this type and shape.
  void tensor(const char* name, const ConstTensor& tensor, Dtype wanted, const Shape& shape_wanted) const {
    present(name, tensor);
    dtype(name, tensor, wanted);
    shape(name, tensor, shape_wanted);
  }
  /// Present, of this type and shape, contiguous.
  void dense(const char* name, const ConstTensor& t, Dtype wanted, const Shape& shape_wanted) const {
    tensor(name, t, wanted, shape_wanted);
    contiguous(name, t);
  }
  void that(bool holds, const char* name, const char* rule) const {
    if (!holds) fail_shape(name, rule);
  }
  /// Does not start where another present tensor starts.
  void apart(const char* name, const ConstTensor& tensor, const char* other_name, const ConstTensor& other) const {
    if (tensor && other && tensor.raw() == other.raw() && tensor.elements() > 0)
      fail_shape(name, fmt::format("must not alias {}", other_name));
  }

 private:
  [[noreturn]] void fail_shape(const char* name, const std::string& what) const {
    throw ShapeError(fmt::format("{}: {} {}", op_, name, what));
  }
  [[noreturn]] void fail_dtype(const char* name, Dtype got, std::string_view wanted) const {
    throw DtypeError(fmt::format("{}: {} is {}, not {}", op_, name, name_of(got), wanted));
  }
  const char* op_;
};

}  // namespace flashbert
