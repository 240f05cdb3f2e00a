#include "core/tensor.h"

#include <type_traits>

namespace flashbert {

Shape::Shape(std::initializer_list<std::int64_t> extents) {
  check<ShapeError>(extents.size() <= kMaxRank, "a shape has at most {} axes, not {}", kMaxRank, extents.size());
  for (const std::int64_t extent : extents) {
    check<ShapeError>(extent >= 0, "extent {} of axis {} is negative", extent, rank_);
    extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
}

std::int64_t Shape::elements() const { return rank_ == 0 ? 1 : extents_[0] * row_elements(); }

std::int64_t Shape::row_elements() const {
  std::int64_t product = 1;
  for (int axis = 1; axis < rank_; ++axis) product *= extents_[static_cast<std::size_t>(axis)];
  return product;
}

std::string Shape::text() const {
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) text += fmt::format("{}{}", axis ? ", " : "", (*this)[axis]);
  return text + ")";
}

namespace {
template <class Pointer>
Pointer offset_bytes(Pointer data, std::int64_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
  return static_cast<Byte*>(data) + bytes;
}
Shape with_extent(const Shape& shape, int axis, std::int64_t extent) {
  switch (shape.rank()) {
    case 1:
      return {extent};
    case 2:
      return axis == 0 ? Shape{extent, shape[1]} : Shape{shape[0], extent};
    default:
      return axis == 0 ? Shape{extent, shape[1], shape[2]} : Shape{shape[0], axis == 1 ? extent : shape[1], axis == 2 ? extent : shape[2]};
  }
}
}  // namespace

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::rows(std::int64_t begin, std::int64_t count) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= extent(0), "rows [{}, {}) of a tensor of shape {}", begin,
                    begin + count, shape_.text());
  return {offset_bytes(data_, begin * row_stride_ * static_cast<std::int64_t>(size_of(dtype_))), dtype_, with_extent(shape_, 0, count),
          row_stride_, space_};
}

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::columns(std::int64_t begin, std::int64_t count) const {
  check<ShapeError>(rank() == 2 && begin >= 0 && count >= 0 && begin + count <= extent(1), "columns [{}, {}) of a tensor of shape {}",
                    begin, begin + count, shape_.text());
  return {offset_bytes(data_, begin * static_cast<std::int64_t>(size_of(dtype_))), dtype_, with_extent(shape_, 1, count), row_stride_,
          space_};
}

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::split_columns(std::int64_t outer, std::int64_t inner) const {
  check<ShapeError>(rank() == 2 && outer * inner == extent(1), "columns of shape {} do not split into {} x {}", shape_.text(), outer,
                    inner);
  return {data_, dtype_, Shape{extent(0), outer, inner}, row_stride_, space_};
}

template <class Pointer>
BasicTensor<Pointer> BasicTensor<Pointer>::reshape(const Shape& shape) const {
  check<ShapeError>(contiguous() && shape.elements() == elements(), "shape {} (row stride {}) cannot be seen as {}", shape_.text(),
                    row_stride_, shape.text());
  return {data_, dtype_, shape, shape.row_elements(), space_};
}

template class BasicTensor<void*>;
template class BasicTensor<const void*>;

}  // namespace flashbert
