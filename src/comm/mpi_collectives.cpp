#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "comm/collectives.h"
#include "comm/host_bytes.h"
#include "comm/mpi_call.h"
#include "comm/mpi_session.h"

namespace flashbert {
namespace {

/// What is handed to MPI at once. One large all-reduce would have Open MPI page-fault and free a temporary of its size: measured 50 times
/// slower than slices.
constexpr std::int64_t kPieceBytes = std::int64_t{2} << 20;

/// The ranks of a group; owns its communicator unless that is the world.
class GroupRanks {
 public:
  explicit GroupRanks(MPI_Comm communicator) : communicator_(communicator) {
    check_mpi(MPI_Comm_rank(communicator, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(communicator, &size_), "MPI_Comm_size");
  }
  ~GroupRanks() {
    if (communicator_ != MPI_COMM_WORLD) MPI_Comm_free(&communicator_);
  }
  GroupRanks(const GroupRanks&) = delete;
  GroupRanks& operator=(const GroupRanks&) = delete;

  /// The ranks of the world on this one's machine.
  static MPI_Comm of_node(NodeCut cut, int world_rank) {
    MPI_Comm node = MPI_COMM_NULL;
    if (cut.ranks_per_node > 0) {
      check_mpi(MPI_Comm_split(MPI_COMM_WORLD, world_rank / cut.ranks_per_node, world_rank, &node), "MPI_Comm_split");
    } else {
      check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    }
    return node;
  }
  /// The ranks of the world with this place on their machines.
  static MPI_Comm across_nodes(int node_rank, int world_rank) {
    MPI_Comm across = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, node_rank, world_rank, &across), "MPI_Comm_split");
    return across;
  }

  [[nodiscard]] MPI_Comm communicator() const { return communicator_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// The rank so many places after this one, in a circle.
  [[nodiscard]] int after(int places) const { return (rank_ + places) % size_; }
  [[nodiscard]] int before(int places) const { return (rank_ + size_ - places) % size_; }

  /// Sends bytes to one rank while it receives bytes from another.
  void exchange(std::span<const std::byte> sent, int to, std::span<std::byte> received, int from) const {
    constexpr int kTag = 0;
    check_mpi(MPI_Sendrecv(sent.data(), static_cast<int>(sent.size()), MPI_BYTE, to, kTag, received.data(),
                           static_cast<int>(received.size()), MPI_BYTE, from, kTag, communicator_, MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
  }

 private:
  MPI_Comm communicator_;
  int rank_ = 0;
  int size_ = 1;
};

/// [begin, end) of one rank's slice of so many elements: equal slices where the ranks divide them, else as equal as can be.
struct Slice {
  Slice(std::int64_t elements, int rank, int size) : begin(elements * rank / size), end(elements * (rank + 1) / size) {}
  std::int64_t begin, end;
  /// The part of the slice that starts `offset` elements into it, of at most `most` elements; empty behind the end.
  template <class T>
  [[nodiscard]] std::span<T> piece(T* all, std::int64_t offset, std::int64_t most) const {
    const std::int64_t first = std::min(begin + offset, end);
    return {all + first, static_cast<std::size_t>(std::min(most, end - first))};
  }
};

void add_to(std::span<float> sums, const float* values) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
}
void add_to(std::span<float> sums, const bf16* values) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += to_float(values[i]);
}
void store(std::span<const float> sums, float* values) { std::copy(sums.begin(), sums.end(), values); }
void store(std::span<const float> sums, bf16* values) { std::transform(sums.begin(), sums.end(), values, to_bf16); }

template <class T>
void add_by_mpi(const GroupRanks& group, T* values, std::int64_t elements, MPI_Datatype type) {
  constexpr std::int64_t kPiece = kPieceBytes / std::int64_t{sizeof(T)};
  for (std::int64_t begin = 0; begin < elements; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, elements - begin);
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values + begin, static_cast<int>(count), type, MPI_SUM, group.communicator()), "MPI_Allreduce");
  }
}

class MpiCollectives final : public Collectives {
 public:
  explicit MpiCollectives(NodeCut cut)
      : world_(MPI_COMM_WORLD),
        node_(GroupRanks::of_node(cut, world_.rank())),
        across_nodes_(GroupRanks::across_nodes(node_.rank(), world_.rank())),
        received_(static_cast<std::size_t>(kPieceBytes)),
        sums_(static_cast<std::size_t>(kPieceBytes) / sizeof(float)) {}
  [[nodiscard]] int rank(Group group) const override { return ranks(group).rank(); }
  [[nodiscard]] int size(Group group) const override { return ranks(group).size(); }

 private:
  void do_all_reduce(Tensor values, Group group) override;
  void do_reduce_scatter(ConstTensor all, Tensor slice, Group group) override;
  void do_all_gather(ConstTensor slice, Tensor all, Group group) override;
  void do_broadcast(Tensor values, int root, Group group) override;

  [[nodiscard]] const GroupRanks& ranks(Group group) const {
    switch (group) {
      case Group::kNode:
        return node_;
      case Group::kAcrossNodes:
        return across_nodes_;
      case Group::kWorld:
        break;
    }
    return world_;
  }
  template <class T>
  void add_slices(const GroupRanks& group, const T* all, T* own, std::int64_t elements);
  static void gather_slices(const GroupRanks& group, std::byte* all, std::int64_t elements, std::int64_t element_bytes);

  GroupRanks world_, node_, across_nodes_;
  std::vector<std::byte> received_;  ///< a piece of every other rank's
  std::vector<float> sums_;
};

void MpiCollectives::do_all_reduce(Tensor values, Group group) {
  const GroupRanks& ranks = this->ranks(group);
  if (ranks.size() == 1) return;
  if (values.dtype() == Dtype::kBf16) {  // MPI cannot add them, and would round every partial sum
    auto* const all = reinterpret_cast<bf16*>(host_bytes(values));
    add_slices(ranks, all, all + Slice(values.elements(), ranks.rank(), ranks.size()).begin, values.elements());
    gather_slices(ranks, host_bytes(values), values.elements(), sizeof(bf16));
    return;
  }
  if (values.dtype() == Dtype::kF64) {
    add_by_mpi(ranks, values.data<double>(), values.elements(), MPI_DOUBLE);
  } else {
    add_by_mpi(ranks, values.data<float>(), values.elements(), MPI_FLOAT);
  }
}

void MpiCollectives::do_reduce_scatter(ConstTensor all, Tensor slice, Group group) {
  if (all.dtype() == Dtype::kBf16) {
    add_slices(ranks(group), all.data<bf16>(), slice.data<bf16>(), all.elements());
  } else {
    add_slices(ranks(group), all.data<float>(), slice.data<float>(), all.elements());
  }
}

/// own = the sum of all ranks' slices of this rank. Each rank sends each other the slice that is its own and adds what it gets itself:
/// MPI's reduction would take a temporary of the tensor's size, know no bf16 and leave the order of sums to the library.
template <class T>
void MpiCollectives::add_slices(const GroupRanks& group, const T* all, T* own, std::int64_t elements) {
  const int size = group.size();
  const std::int64_t longest = (elements + size - 1) / size;
  const std::int64_t most = std::max<std::int64_t>(kPieceBytes / std::int64_t{sizeof(float)} / size, 1);
  auto* const received = reinterpret_cast<T*>(received_.data());
  const Slice own_slice(elements, group.rank(), size);
  for (std::int64_t offset = 0; offset < longest; offset += most) {
    const std::span<const T> mine = own_slice.piece(all, offset, most);
    for (int places = 1; places < size; ++places) {
      const int to = group.after(places);
      const int from = group.before(places);
      group.exchange(std::as_bytes(Slice(elements, to, size).piece(all, offset, most)), to,
                     std::as_writable_bytes(std::span(received + from * most, mine.size())), from);
    }
    const std::span<float> sums(sums_.data(), mine.size());
    std::fill(sums.begin(), sums.end(), -0.0F);  // -0 + x is x for every x, the sign of zero included
    for (int rank = 0; rank < size; ++rank) add_to(sums, rank == group.rank() ? mine.data() : received + rank * most);
    store(sums, own + offset);
  }
}

void MpiCollectives::do_all_gather(ConstTensor slice, Tensor all, Group group) {
  std::byte* const whole = host_bytes(all);
  std::byte* const own = whole + slice.bytes() * rank(group);
  const std::byte* const given = host_bytes(slice);
  if (own != given) std::memcpy(own, given, static_cast<std::size_t>(slice.bytes()));
  gather_slices(ranks(group), whole, all.elements(), static_cast<std::int64_t>(size_of(all.dtype())));
}

/// Every rank's slice to all, in a ring: at each turn a rank passes on the slice that it got at the last. Needs no memory of its own, as
/// MPI's all-gather does for some sizes.
void MpiCollectives::gather_slices(const GroupRanks& group, std::byte* all, std::int64_t elements, std::int64_t element_bytes) {
  const int size = group.size();
  const std::int64_t longest = (elements + size - 1) / size * element_bytes;
  const auto piece = [&](int rank, std::int64_t offset) {
    Slice slice(elements, rank, size);
    slice.begin *= element_bytes;
    slice.end *= element_bytes;
    return slice.piece(all, offset, kPieceBytes);
  };
  for (int turn = 0; turn + 1 < size; ++turn) {
    for (std::int64_t offset = 0; offset < longest; offset += kPieceBytes) {
      group.exchange(piece(group.before(turn), offset), group.after(1), piece(group.before(turn + 1), offset), group.before(1));
    }
  }
}

void MpiCollectives::do_broadcast(Tensor values, int root, Group group) {
  std::byte* const all = host_bytes(values);
  for (std::int64_t begin = 0; begin < values.bytes(); begin += kPieceBytes) {
    const std::int64_t count = std::min(kPieceBytes, values.bytes() - begin);
    check_mpi(MPI_Bcast(all + begin, static_cast<int>(count), MPI_BYTE, root, ranks(group).communicator()), "MPI_Bcast");
  }
}

}  // namespace

std::unique_ptr<Collectives> make_collectives(const MpiSession& session, NodeCut cut) {
  if (session.active()) return std::make_unique<MpiCollectives>(cut);
  return make_self_collectives();
}

}  // namespace flashbert
