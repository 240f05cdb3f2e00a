#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.h"
#include "core/error.h"

namespace flashbert {

/// Extents of a tensor, outermost first; rank 0 to 3.
class Shape {
 public:
  static constexpr int kMaxRank = 3;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t elements() const;
  /// Elements of one row: the product of all extents but the first.
  [[nodiscard]] std::int64_t row_elements() const;
  [[nodiscard]] std::string text() const;  ///< "(16, 128)"
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Memory that the host cannot simply read: a device's. A tensor that names none lies in host memory.
class MemorySpace {
 public:
  MemorySpace() = default;
  virtual ~MemorySpace() = default;
  MemorySpace(const MemorySpace&) = delete;
  MemorySpace& operator=(const MemorySpace&) = delete;
  /// Whether code that runs now may look inside. Never for a GPU, whose kernels take raw pointers.
  [[nodiscard]] virtual bool readable() const = 0;
};

/// A view of memory that somebody else owns (a buffer, an arena, a file). Rows (axis 0) may lie row_stride elements apart;
/// inside a row the elements are contiguous and row-major. A default-constructed view is absent: optional arguments of ops.
/// It knows where the memory lies; only a backend looks inside a device's.
template <class Pointer>
class BasicTensor {
 public:
  BasicTensor() = default;
  BasicTensor(Pointer data, Dtype dtype, const Shape& shape) : BasicTensor(data, dtype, shape, shape.row_elements()) {}
  BasicTensor(Pointer data, Dtype dtype, const Shape& shape, std::int64_t row_stride, const MemorySpace* space = nullptr)
      : data_(data), space_(space), shape_(shape), row_stride_(row_stride), dtype_(dtype), present_(true) {}
  /// A mutable view converts to a const one.
  template <class Other>
  BasicTensor(const BasicTensor<Other>& other)
      : data_(other.raw()),
        space_(other.space()),
        shape_(other.shape()),
        row_stride_(other.row_stride()),
        dtype_(other.dtype()),
        present_(bool(other)) {}

  explicit operator bool() const { return present_; }
  /// The address, for those who do not look behind it (or do so on the device).
  [[nodiscard]] Pointer raw() const { return data_; }
  /// Where the memory lies; null: on the host.
  [[nodiscard]] const MemorySpace* space() const { return space_; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] int rank() const { return shape_.rank(); }
  [[nodiscard]] std::int64_t extent(int axis) const { return shape_[axis]; }
  [[nodiscard]] std::int64_t elements() const { return shape_.elements(); }
  [[nodiscard]] std::int64_t bytes() const { return elements() * static_cast<std::int64_t>(size_of(dtype_)); }
  [[nodiscard]] std::int64_t row_stride() const { return row_stride_; }
  [[nodiscard]] bool contiguous() const { return row_stride_ == shape_.row_elements() || (rank() > 0 && shape_[0] <= 1); }

  /// Typed pointer to the first element; const T for const views. Throws DtypeError when T is not the element type, BrokenPromise when the
  /// memory is a device's that cannot be read here.
  template <class T>
  [[nodiscard]] auto data() const {
    check<DtypeError>(kDtypeOf<std::remove_const_t<T>> == dtype_, "tensor holds {}, asked for {}", name_of(dtype_),
                      name_of(kDtypeOf<std::remove_const_t<T>>));
    check<BrokenPromise>(space_ == nullptr || space_->readable(),
                         "a tensor of shape {} lies in device memory; only a backend may look inside", shape_.text());
    using Result = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const T, T>;
    return static_cast<Result*>(data_);
  }
  /// Rows [begin, begin + count) as a view of the same rank.
  [[nodiscard]] BasicTensor rows(std::int64_t begin, std::int64_t count) const;
  /// Columns [begin, begin + count) of a rank-2 view; the row stride stays.
  [[nodiscard]] BasicTensor columns(std::int64_t begin, std::int64_t count) const;
  /// The same rows seen as (outer, inner) blocks: (T, A * D) becomes (T, A, D).
  [[nodiscard]] BasicTensor split_columns(std::int64_t outer, std::int64_t inner) const;
  /// The same memory with another shape; the view must be contiguous and the element counts equal.
  [[nodiscard]] BasicTensor reshape(const Shape& shape) const;

 private:
  Pointer data_ = nullptr;
  const MemorySpace* space_ = nullptr;
  Shape shape_;
  std::int64_t row_stride_ = 0;
  Dtype dtype_ = Dtype::kF32;
  bool present_ = false;
};

using Tensor = BasicTensor<void*>;
using ConstTensor = BasicTensor<const void*>;

extern template class BasicTensor<void*>;
extern template class BasicTensor<const void*>;

}  // namespace flashbert
