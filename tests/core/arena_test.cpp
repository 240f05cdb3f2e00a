#include "core/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "core/cpu/cpu_context.h"
#include "core/memory.h"

namespace flashbert {
namespace {

TEST(ArenaPlan, BooksAlignedPlacesInOrder) {
  ArenaPlan plan;
  plan.book("weights", "a", Dtype::kBf16, {3, 5});
  plan.book("weights", "b", Dtype::kF32, {0});
  plan.book("batch", "c", Dtype::kU8, {257});
  ASSERT_EQ(plan.entries().size(), 3U);
  EXPECT_EQ(plan.entries()[0].offset, 0);
  EXPECT_EQ(plan.entries()[1].offset, ArenaPlan::kAlignment);
  EXPECT_EQ(plan.entries()[2].offset, ArenaPlan::kAlignment);
  EXPECT_EQ(plan.total_bytes(), 3 * ArenaPlan::kAlignment);
}

TEST(ArenaPlan, GroupsAddUpToTheTotal) {
  ArenaPlan plan;
  plan.book("weights", "a", Dtype::kF32, {1000});
  plan.book("batch", "b", Dtype::kI32, {77});
  plan.book("weights", "c", Dtype::kF32, {1});
  EXPECT_EQ(plan.group_bytes("weights") + plan.group_bytes("batch"), plan.total_bytes());
  EXPECT_EQ(plan.group_bytes("absent"), 0);
  EXPECT_THAT(plan.text(), ::testing::AllOf(::testing::HasSubstr("weights"), ::testing::HasSubstr("batch"), ::testing::HasSubstr("total")));
}

// Literal, since kAlignment and group_bytes would follow each other into any mistake.
TEST(ArenaPlan, BooksMultiplesOf256Bytes) {
  ArenaPlan plan;
  plan.book("weights", "a", Dtype::kF32, {1000});
  plan.book("batch", "b", Dtype::kI32, {77});
  plan.book("weights", "c", Dtype::kBf16, {1});
  EXPECT_EQ(plan.entries()[1].offset, 4096);
  EXPECT_EQ(plan.entries()[2].offset, 4608);
  EXPECT_EQ(plan.group_bytes("weights"), 4352);
  EXPECT_EQ(plan.group_bytes("batch"), 512);
  EXPECT_EQ(plan.total_bytes(), 4864);
}

TEST(ArenaPlan, TellsMebibytesOfEachGroupAndOfAll) {
  ArenaPlan plan;
  plan.book("weights", "a", Dtype::kF32, {3, 262144});
  plan.book("batch", "b", Dtype::kU8, {1572864});
  plan.book("weights", "c", Dtype::kBf16, {524288});
  EXPECT_EQ(plan.text(),
            "weights             4.0 MiB\n"
            "batch               1.5 MiB\n"
            "total               5.5 MiB\n");
}

TEST(Arena, HandsOutZeroedAlignedDisjointTensors) {
  CpuContext context(2);
  ArenaPlan plan;
  const BufferId a = plan.book("weights", "a", Dtype::kF32, {7, 3});
  const BufferId b = plan.book("weights", "b", Dtype::kU64, {5});
  const Arena arena(plan, context);
  const Tensor first = arena.tensor(a);
  const Tensor second = arena.tensor(b);
  EXPECT_EQ(first.shape(), (Shape{7, 3}));
  EXPECT_EQ(second.dtype(), Dtype::kU64);
  for (const Tensor& tensor : {first, second}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % ArenaPlan::kAlignment, 0U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(second.data<std::uint64_t>()[i], 0U);
  std::memset(first.raw(), 0xff, static_cast<std::size_t>(first.bytes()));
  EXPECT_EQ(second.data<std::uint64_t>()[0], 0U);
}

TEST(Arena, KeepsItsMemoryWhenMoved) {
  CpuContext context(1);
  ArenaPlan plan;
  const BufferId id = plan.book("weights", "a", Dtype::kF32, {4});
  Arena arena(plan, context);
  arena.tensor(id).data<float>()[3] = 5.0F;
  const Arena moved(std::move(arena));
  EXPECT_EQ(moved.tensor(id).data<float>()[3], 5.0F);
}

TEST(Arena, MayBeEmpty) {
  CpuContext context(1);
  const Arena arena(ArenaPlan(), context);
  EXPECT_EQ(arena.bytes(), 0);
}

TEST(Arena, SaysHowMuchCouldNotBeHad) {
  CpuContext context(1);
  // More than any machine has, and a little more than this one has free: the second would be mapped and then kill the process.
  for (const std::int64_t bytes : {std::int64_t{1} << 59, available_memory_bytes() + (std::int64_t{1} << 30)}) {
    ArenaPlan plan;
    plan.book("weights", "huge", Dtype::kU8, {bytes});
    try {
      const Arena arena(plan, context);
      FAIL() << "mapped " << bytes << " bytes";
    } catch (const EnvironmentError& error) {
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("MiB are free"), ::testing::HasSubstr("weights")));
    }
  }
}

}  // namespace
}  // namespace flashbert
