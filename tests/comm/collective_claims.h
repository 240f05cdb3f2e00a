#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/collectives.h"
#include "core/error.h"

// What every kind of Collectives promises. All functions are collective over the world.

namespace flashbert::testing {

/// Host memory, poisoned, with guards behind it.
template <class T>
class Values {
 public:
  explicit Values(std::int64_t count) : values_(static_cast<std::size_t>(count) + kGuards) {
    std::memset(static_cast<void*>(values_.data()), kGuardByte, values_.size() * sizeof(T));
  }
  ~Values() {
    const auto* const guards = reinterpret_cast<const unsigned char*>(values_.data() + count());
    for (std::size_t i = 0; i < kGuards * sizeof(T); ++i) EXPECT_EQ(guards[i], kGuardByte) << "behind the end";
  }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(values_.size() - kGuards); }
  T& operator[](std::int64_t i) { return values_[static_cast<std::size_t>(i)]; }
  const T& operator[](std::int64_t i) const { return values_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] Tensor tensor() { return part(0, count()); }
  [[nodiscard]] Tensor part(std::int64_t begin, std::int64_t elements) { return {values_.data() + begin, kDtypeOf<T>, {elements}}; }

 private:
  static constexpr std::size_t kGuards = 8;
  static constexpr unsigned char kGuardByte = 0xa5;
  std::vector<T> values_;
};

/// Numbers whose sums depend on their order, another for every rank of the world and place.
inline float number(int rank, std::int64_t i) {
  const auto mixed = static_cast<std::uint32_t>((i + 1) * 2654435761LL + static_cast<std::int64_t>(rank + 1) * 40503LL) % 65521U;
  return (static_cast<float>(mixed) - 30000.0F) / static_cast<float>(1 + (mixed + static_cast<std::uint32_t>(rank)) % 977U);
}
template <class T>
T number_as(int rank, std::int64_t i) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(number(rank, i));
  } else {
    return static_cast<T>(static_cast<std::int64_t>(number(rank, i)) + rank);
  }
}
template <>
inline float number_as<float>(int rank, std::int64_t i) {
  return number(rank, i);
}

/// The world's ranks that this one's group holds, in order, where so many consecutive ranks are a node.
inline std::vector<int> members(const Collectives& collectives, Group group, int ranks_per_node) {
  std::vector<int> found;
  const int own = collectives.rank();
  for (int rank = 0; rank < collectives.size(); ++rank) {
    const bool same_node = rank / ranks_per_node == own / ranks_per_node;
    const bool same_place = rank % ranks_per_node == own % ranks_per_node;
    if (group == Group::kWorld || (group == Group::kNode ? same_node : same_place)) found.push_back(rank);
  }
  return found;
}

inline constexpr Group kGroups[] = {Group::kWorld, Group::kNode, Group::kAcrossNodes};

/// The longest slice of the claims: more than one piece of 2 MiB where tensors are cut, else short.
enum class Longest : std::int64_t { kSeveralPieces = 300'001, kShort = 401 };

struct Claims {
  Group group = Group::kWorld;
  std::vector<int> ranks;  ///< members()
  Longest longest = Longest::kShort;
  [[nodiscard]] std::int64_t most() const { return static_cast<std::int64_t>(longest); }
  [[nodiscard]] std::vector<std::int64_t> slices() const { return {0, 1, 37, most()}; }
  /// Of whole tensors, which no number of ranks above 1 divides.
  [[nodiscard]] std::vector<std::int64_t> wholes() const { return {0, 1, 4 * most() + 3}; }
};

template <class T>
T sum_in_rank_order(const std::vector<int>& ranks, std::int64_t i) {
  float sum = to_float(number_as<T>(ranks.front(), i));
  for (std::size_t r = 1; r < ranks.size(); ++r) sum += to_float(number_as<T>(ranks[r], i));
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(sum);
  } else {
    return sum;
  }
}

/// Counts differences, so that a wrong tensor is one failure and not a million.
template <class T, class Wanted>
void expect_values(const Values<T>& values, const Wanted& wanted) {
  std::int64_t wrong = 0;
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < values.count(); ++i) {
    if (values[i] == wanted(i)) continue;
    if (wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0) << "of " << values.count() << ", the first at " << first;
}

template <class T>
void fill(Values<T>& values, int rank) {
  for (std::int64_t i = 0; i < values.count(); ++i) values[i] = number_as<T>(rank, i);
}

inline void expect_groups(const Collectives& collectives, int ranks_per_node) {
  for (const Group group : kGroups) {
    const std::vector<int> ranks = members(collectives, group, ranks_per_node);
    ASSERT_EQ(collectives.size(group), static_cast<int>(ranks.size()));
    EXPECT_EQ(ranks[static_cast<std::size_t>(collectives.rank(group))], collectives.rank());
  }
}

/// Whole numbers below 2^24 add exactly in f32 in any order; the longest is several pieces and a rest.
template <class T>
void expect_exact_sums(Collectives& collectives, const Claims& claims) {
  std::int64_t factors = 0;
  for (const int rank : claims.ranks) factors += rank + 1;
  for (const std::int64_t count : claims.wholes()) {
    Values<T> values(count);
    for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<T>((i % 1000) * (collectives.rank() + 1));
    collectives.all_reduce(values.tensor(), claims.group);
    expect_values(values, [&](std::int64_t i) { return static_cast<T>((i % 1000) * factors); });
  }
}

/// The same bits on every rank, and again the next time.
inline void expect_equal_sums(Collectives& collectives, const Claims& claims) {
  constexpr std::int64_t kCount = 10'007;
  Values<float> first(kCount);
  Values<float> second(kCount);
  for (Values<float>* const values : {&first, &second}) {
    fill(*values, collectives.rank());
    collectives.all_reduce(values->tensor(), claims.group);
  }
  expect_values(second, [&](std::int64_t i) { return first[i]; });
  collectives.broadcast(second.tensor(), collectives.size(claims.group) - 1, claims.group);
  expect_values(second, [&](std::int64_t i) { return first[i]; });
}

/// bf16 are added in f32, in rank order, and rounded once, also where the ranks do not divide the elements.
inline void expect_bf16_sums(Collectives& collectives, const Claims& claims) {
  for (const std::int64_t count : claims.wholes()) {
    Values<bf16> values(count);
    fill(values, collectives.rank());
    collectives.all_reduce(values.tensor(), claims.group);
    expect_values(values, [&](std::int64_t i) { return sum_in_rank_order<bf16>(claims.ranks, i); });
  }
}

template <class T>
void expect_reduced_slices(Collectives& collectives, const Claims& claims) {
  for (const std::int64_t count : claims.slices()) {
    const std::int64_t begin = count * collectives.rank(claims.group);
    const auto sum = [&](std::int64_t i) { return sum_in_rank_order<T>(claims.ranks, begin + i); };
    Values<T> all(count * collectives.size(claims.group));
    Values<T> slice(count);
    fill(all, collectives.rank());
    collectives.reduce_scatter(all.tensor(), slice.tensor(), claims.group);
    expect_values(slice, sum);
    const auto given = [&](std::int64_t i) { return number_as<T>(collectives.rank(), i); };
    expect_values(all, given);
    collectives.reduce_scatter(all.tensor(), all.part(begin, count), claims.group);
    expect_values(all, [&](std::int64_t i) { return i >= begin && i < begin + count ? sum(i - begin) : given(i); });
  }
}

template <class T>
void expect_gathered_slices(Collectives& collectives, const Claims& claims) {
  for (const std::int64_t count : claims.slices()) {
    const auto wanted = [&](std::int64_t i) { return number_as<T>(claims.ranks[static_cast<std::size_t>(i / count)], i % count); };
    Values<T> all(count * collectives.size(claims.group));
    Values<T> slice(count);
    fill(slice, collectives.rank());
    collectives.all_gather(slice.tensor(), all.tensor(), claims.group);
    expect_values(all, wanted);
    Values<T> in_place(count * collectives.size(claims.group));
    const std::int64_t begin = count * collectives.rank(claims.group);
    for (std::int64_t i = 0; i < count; ++i) in_place[begin + i] = slice[i];
    collectives.all_gather(in_place.part(begin, count), in_place.tensor(), claims.group);
    expect_values(in_place, wanted);
  }
}

template <class T>
void expect_broadcasts(Collectives& collectives, const Claims& claims) {
  for (const int root : {0, collectives.size(claims.group) - 1}) {
    for (const std::int64_t count : claims.slices()) {
      Values<T> values(count);
      fill(values, collectives.rank());
      collectives.broadcast(values.tensor(), root, claims.group);
      expect_values(values, [&](std::int64_t i) { return number_as<T>(claims.ranks[static_cast<std::size_t>(root)], i); });
    }
  }
}

/// Everything about values, over every group.
inline void expect_collectives(Collectives& collectives, int ranks_per_node, Longest longest) {
  expect_groups(collectives, ranks_per_node);
  if (::testing::Test::HasFatalFailure()) return;
  for (const Group group : kGroups) {
    SCOPED_TRACE(static_cast<int>(group));
    const Claims claims = {.group = group, .ranks = members(collectives, group, ranks_per_node), .longest = longest};
    expect_exact_sums<float>(collectives, claims);
    expect_exact_sums<double>(collectives, claims);
    expect_equal_sums(collectives, claims);
    expect_bf16_sums(collectives, claims);
    expect_reduced_slices<float>(collectives, claims);
    expect_reduced_slices<bf16>(collectives, claims);
    expect_gathered_slices<float>(collectives, claims);
    expect_gathered_slices<std::uint8_t>(collectives, claims);
    expect_gathered_slices<std::int64_t>(collectives, claims);
    expect_broadcasts<bf16>(collectives, claims);
    expect_broadcasts<std::int64_t>(collectives, claims);
  }
}

/// f throws E, whose message holds these texts.
template <class E, class F>
void expect_refused(const std::vector<std::string>& texts, const F& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was refused; it should have named " << texts.front();
  } catch (const E& error) {
    for (const std::string& text : texts) EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
  }
}

/// What does not fit is refused on every rank before anything is sent: the call after it works.
inline void expect_refusals(Collectives& collectives) {
  const std::int64_t size = collectives.size();
  Values<float> all(5 * size + 1);
  Values<float> slice(5);
  Values<std::int32_t> integers(5 * size);
  const std::string longer = Shape{5 * size + 1}.text();
  expect_refused<ShapeError>({"reduce_scatter", longer, "(5)"}, [&] { collectives.reduce_scatter(all.tensor(), slice.tensor()); });
  expect_refused<ShapeError>({"all_gather", longer, "(5)"}, [&] { collectives.all_gather(slice.tensor(), all.tensor()); });
  const Tensor strided(all.tensor().raw(), Dtype::kF32, {2, 1}, 3);
  expect_refused<ShapeError>({"all_reduce", "(2, 1)", "3 elements apart"}, [&] { collectives.all_reduce(strided); });
  expect_refused<ShapeError>({"broadcast", "3 elements apart"}, [&] { collectives.broadcast(strided, 0); });
  expect_refused<ShapeError>({"all_reduce", "missing"}, [&] { collectives.all_reduce({}); });
  expect_refused<ShapeError>({"all_gather", "missing"}, [&] { collectives.all_gather({}, all.tensor()); });
  expect_refused<DtypeError>({"all_reduce", "i32"}, [&] { collectives.all_reduce(integers.tensor()); });
  expect_refused<DtypeError>({"reduce_scatter", "i32"},
                             [&] { collectives.reduce_scatter(integers.tensor(), integers.part(5 * collectives.rank(), 5)); });
  expect_refused<DtypeError>({"all_gather", "f32", "i32"}, [&] { collectives.all_gather(slice.tensor(), integers.tensor()); });
  expect_refused<BrokenPromise>({"from rank -1"}, [&] { collectives.broadcast(slice.tensor(), -1); });
  expect_refused<BrokenPromise>({fmt::format("from rank {}", size)},
                                [&] { collectives.broadcast(slice.tensor(), static_cast<int>(size)); });
  for (std::int64_t i = 0; i < slice.count(); ++i) slice[i] = 1.0F;
  collectives.all_reduce(slice.tensor());
  expect_values(slice, [&](std::int64_t /*i*/) { return static_cast<float>(size); });
}

/// These are for memory that the host reads.
inline void expect_device_memory_refused(Collectives& collectives) {
  struct Elsewhere final : MemorySpace {
    [[nodiscard]] bool readable() const override { return false; }
  };
  const Elsewhere elsewhere;
  Values<float> all(4 * collectives.size());
  const Tensor there(all.tensor().raw(), Dtype::kF32, {4 * collectives.size()}, 1, &elsewhere);
  const Tensor slice_there(all.tensor().raw(), Dtype::kF32, {4}, 1, &elsewhere);
  expect_refused<BrokenPromise>({"device memory"}, [&] { collectives.reduce_scatter(there, slice_there); });
  expect_refused<BrokenPromise>({"device memory"}, [&] { collectives.all_gather(slice_there, there); });
}

}  // namespace flashbert::testing
