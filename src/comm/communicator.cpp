#include "comm/communicator.h"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "core/cores.h"
#include "core/error.h"

namespace flashbert {
namespace {

class SelfCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void all_reduce_sum(std::span<float> /*values*/) override {}
  void all_reduce_sum(std::span<double> /*values*/) override {}
  void all_reduce_sum(std::span<std::int64_t> /*values*/) override {}
  void all_reduce_max(std::span<std::int64_t> /*values*/) override {}
  void broadcast(void* /*data*/, std::size_t /*bytes*/) override {}
  void barrier() override {}
  [[nodiscard]] int local_size() const override { return 1; }
  [[nodiscard]] int own_cores() const override { return count_cores(bound_cores()); }
  [[nodiscard]] std::string gather_lines(const std::string& line) override { return line + "\n"; }
  [[nodiscard]] std::string description() const override { return "self"; }
};

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw PeerError(fmt::format("{} failed: {}", call, text));
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    share_cores();
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void all_reduce_sum(std::span<float> values) override { all_reduce(values, MPI_FLOAT, MPI_SUM); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, MPI_DOUBLE, MPI_SUM); }
  void all_reduce_sum(std::span<std::int64_t> values) override { all_reduce(values, MPI_INT64_T, MPI_SUM); }
  void all_reduce_max(std::span<std::int64_t> values) override { all_reduce(values, MPI_INT64_T, MPI_MAX); }
  void broadcast(void* data, std::size_t bytes) override {
    check_mpi(MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }
  void barrier() override { check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  [[nodiscard]] int local_size() const override { return local_size_; }
  [[nodiscard]] int own_cores() const override { return own_cores_; }
  [[nodiscard]] std::string gather_lines(const std::string& line) override {
    const std::string own = line + "\n";
    const int bytes = static_cast<int>(own.size());
    std::vector<int> counts(static_cast<std::size_t>(size_));
    check_mpi(MPI_Gather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
    std::vector<int> offsets(counts.size());
    int total = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      offsets[i] = total;
      total += counts[i];
    }
    std::string all(root() ? static_cast<std::size_t>(total) : 0, ' ');
    check_mpi(MPI_Gatherv(own.data(), bytes, MPI_CHAR, all.data(), counts.data(), offsets.data(), MPI_CHAR, 0, MPI_COMM_WORLD),
              "MPI_Gatherv");
    return all;
  }
  [[nodiscard]] std::string description() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string version(text, static_cast<std::size_t>(length));
    return version.substr(0, version.find(','));
  }

 private:
  void share_cores() {
    MPI_Comm local = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
    check_mpi(MPI_Comm_size(local, &local_size_), "MPI_Comm_size");
    const CoreMask own = bound_cores();
    CoreMask all = own;
    const int bound = count_cores(own);
    int sum = bound;
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, all.data(), static_cast<int>(all.size()), MPI_UINT64_T, MPI_BOR, local), "MPI_Allreduce");
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, local), "MPI_Allreduce");
    check_mpi(MPI_Comm_free(&local), "MPI_Comm_free");
    own_cores_ = sum == count_cores(all) ? bound : std::clamp(count_cores(all) / local_size_, 1, bound);
  }

  template <class T>
  void all_reduce(std::span<T> values, MPI_Datatype type, MPI_Op op) {
    // One large call would have Open MPI page-fault and free a temporary of its size: measured 50 times slower than slices.
    constexpr std::size_t kSliceBytes = std::size_t{2} << 20;
    constexpr std::size_t kSlice = kSliceBytes / sizeof(T);
    for (std::size_t begin = 0; begin < values.size(); begin += kSlice) {
      const std::size_t count = std::min(kSlice, values.size() - begin);
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data() + begin, static_cast<int>(count), type, op, MPI_COMM_WORLD), "MPI_Allreduce");
    }
  }
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int own_cores_ = 1;
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() { return std::make_unique<SelfCommunicator>(); }

std::unique_ptr<Communicator> make_communicator(const MpiSession& session) {
  if (session.active()) return std::make_unique<MpiCommunicator>();
  return make_self_communicator();
}

}  // namespace flashbert
