#include "core/tensor.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <vector>

namespace flashbert {
namespace {

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{5}).elements(), 5);
  EXPECT_EQ((Shape{5}).row_elements(), 1);
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).row_elements(), 12);
  EXPECT_EQ((Shape{0, 7}).elements(), 0);
  EXPECT_EQ((Shape{2, 3}).text(), "(2, 3)");
}

TEST(Shape, RefusesFourAxesAndNegativeExtents) {
  EXPECT_THROW((Shape{1, 2, 3, 4}), ShapeError);
  EXPECT_THROW((Shape{2, -1}), ShapeError);
}

TEST(Tensor, IsAbsentByDefaultAndPresentWhenEmpty) {
  EXPECT_FALSE(Tensor());
  float nothing = 0.0F;
  EXPECT_TRUE(Tensor(&nothing, Dtype::kF32, Shape{0}));
}

TEST(Tensor, RowsStartAtTheRightElement) {
  std::vector<float> values = counted(12);
  const Tensor all(values.data(), Dtype::kF32, Shape{4, 3});
  const Tensor part = all.rows(1, 2);
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(part.data<float>()[0], 3.0F);
  EXPECT_TRUE(part.contiguous());
  EXPECT_EQ(all.rows(4, 0).elements(), 0);
  EXPECT_THROW(static_cast<void>(all.rows(3, 2)), ShapeError);
  EXPECT_THROW(static_cast<void>(all.rows(-1, 2)), ShapeError);
}

TEST(Tensor, ColumnsKeepTheRowStride) {
  std::vector<float> values = counted(12);
  const Tensor part = Tensor(values.data(), Dtype::kF32, Shape{2, 6}).columns(2, 4);
  EXPECT_EQ(part.row_stride(), 6);
  EXPECT_FALSE(part.contiguous());
  EXPECT_EQ(part.data<float>()[0], 2.0F);
  const Tensor blocks = part.split_columns(2, 2);
  EXPECT_EQ(blocks.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(blocks.row_stride(), 6);
  EXPECT_EQ(blocks.rows(1, 1).data<float>()[0], 8.0F);
  EXPECT_THROW(static_cast<void>(part.split_columns(3, 2)), ShapeError);
  EXPECT_THROW(static_cast<void>(part.columns(3, 2)), ShapeError);
}

TEST(Tensor, OneRowIsContiguousWhateverItsStride) {
  std::vector<float> values = counted(12);
  EXPECT_TRUE(Tensor(values.data(), Dtype::kF32, Shape{2, 6}).columns(2, 3).rows(0, 1).contiguous());
}

TEST(Tensor, ReshapeNeedsContiguousElementsOfTheSameCount) {
  std::vector<float> values = counted(12);
  const Tensor all(values.data(), Dtype::kF32, Shape{2, 6});
  EXPECT_EQ(all.reshape(Shape{3, 4}).extent(0), 3);
  EXPECT_THROW(static_cast<void>(all.reshape(Shape{3, 3})), ShapeError);
  EXPECT_THROW(static_cast<void>(all.columns(0, 3).reshape(Shape{6})), ShapeError);
}

TEST(Tensor, RefusesTheWrongElementType) {
  std::vector<float> values = counted(2);
  const ConstTensor view(values.data(), Dtype::kF32, Shape{2});
  EXPECT_THROW(static_cast<void>(view.data<double>()), DtypeError);
  EXPECT_EQ(view.data<float>()[1], 1.0F);
}

TEST(Tensor, BecomesConstWithAllItsProperties) {
  std::vector<float> values = counted(12);
  const Tensor view = Tensor(values.data(), Dtype::kF32, Shape{2, 6}).columns(1, 3);
  const ConstTensor constant = view;
  EXPECT_EQ(constant.raw(), view.raw());
  EXPECT_EQ(constant.shape(), view.shape());
  EXPECT_EQ(constant.row_stride(), 6);
  EXPECT_FALSE(ConstTensor(Tensor()));
}

class Closed final : public MemorySpace {
 public:
  [[nodiscard]] bool readable() const override { return open; }
  bool open = false;
};

TEST(Tensor, MemoryOfADeviceIsNotLookedInto) {
  Closed space;
  std::array<float, 6> memory = {0, 1, 2, 3, 4, 5};
  const Tensor tensor(memory.data(), Dtype::kF32, {2, 3}, 3, &space);
  const ConstTensor constant = tensor;
  EXPECT_THROW(static_cast<void>(tensor.data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(constant.data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(tensor.rows(1, 1).data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(tensor.columns(1, 2).data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(tensor.reshape({6}).data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(tensor.split_columns(1, 3).data<float>()), BrokenPromise);
  EXPECT_THROW(static_cast<void>(tensor.data<std::int32_t>()), DtypeError);
  space.open = true;
  EXPECT_EQ(tensor.rows(1, 1).columns(1, 2).data<float>()[0], 4.0F);
}

}  // namespace
}  // namespace flashbert
