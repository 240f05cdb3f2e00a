#pragma once

#include <memory>

#include "core/tensor.h"

namespace flashbert {

class MpiSession;

/// Which ranks a collective joins: all; those of this machine; those that have this one's place on their machines (one of each).
enum class Group { kWorld, kNode, kAcrossNodes };

/// What ranks do with tensors together. Every call is collective: all ranks of the group call the same, in the same order, with the same
/// extents and types. On a device a call is enqueued on Stream::kCommunication and does not wait; on the CPU it runs at once. Calls
/// allocate nothing of a tensor's size.
///
/// Tensors are contiguous. Throws ShapeError for other strides and for extents that do not fit, naming both; DtypeError for a type that a
/// call does not take; both before anything is sent. Throws PeerError with the rank and the failed call when the library fails.
///
/// Deterministic: the order of sums is fixed by the number of ranks, so the same tensors give the same bits.
class Collectives {
 public:
  virtual ~Collectives() = default;
  Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  [[nodiscard]] virtual int rank(Group group = Group::kWorld) const = 0;
  [[nodiscard]] virtual int size(Group group = Group::kWorld) const = 0;

  /// In place: every element becomes the sum over the ranks. f32, f64, or bf16 (added in f32 in rank order and rounded once).
  void all_reduce(Tensor values, Group group = Group::kWorld);

  /// slice = sum over the ranks of slice rank(group) of `all`, which is size(group) equal slices; added in rank order. Both f32, or both
  /// bf16 (added in f32 and rounded once). `slice` may be its own place in `all`, whose other slices keep their values; else they do not
  /// overlap.
  void reduce_scatter(ConstTensor all, Tensor slice, Group group = Group::kWorld);

  /// Slice r of `all`, which is size(group) equal slices, becomes rank r's `slice`. Any type. `slice` may be its own place in `all`; else
  /// they do not overlap.
  void all_gather(ConstTensor slice, Tensor all, Group group = Group::kWorld);

  /// The values of rank `root` of the group to all of it. Any type. Throws BrokenPromise where the group has no such rank.
  void broadcast(Tensor values, int root, Group group = Group::kWorld);

 private:
  virtual void do_all_reduce(Tensor values, Group group) = 0;
  virtual void do_reduce_scatter(ConstTensor all, Tensor slice, Group group) = 0;
  virtual void do_all_gather(ConstTensor slice, Tensor all, Group group) = 0;
  virtual void do_broadcast(Tensor values, int root, Group group) = 0;
};

/// A rank alone, without MPI: every group is itself.
std::unique_ptr<Collectives> make_self_collectives();

struct NodeCut {
  int ranks_per_node = 0;  ///< 0: machines are what shares memory; else so many consecutive ranks count as one, whatever they run on
};

/// Over MPI, on host memory, of an active session, else of a rank alone. Collective over the world.
std::unique_ptr<Collectives> make_collectives(const MpiSession& session, NodeCut cut = {});

}  // namespace flashbert
