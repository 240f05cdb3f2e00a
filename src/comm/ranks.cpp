#include "comm/ranks.h"

#include <mpi.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "comm/mpi_call.h"
#include "comm/mpi_session.h"
#include "core/cores.h"
#include "core/error.h"

namespace flashbert {
namespace {

class SelfRanks final : public Ranks {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
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

class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    share_cores();
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, MPI_DOUBLE, MPI_SUM); }
  void all_reduce_sum(std::span<std::int64_t> values) override { all_reduce(values, MPI_INT64_T, MPI_SUM); }
  void all_reduce_max(std::span<std::int64_t> values) override { all_reduce(values, MPI_INT64_T, MPI_MAX); }
  void broadcast(void* data, std::size_t bytes) override {
    check<BrokenPromise>(bytes <= std::size_t{std::numeric_limits<int>::max()}, "{} bytes are too many for one broadcast", bytes);
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
  [[nodiscard]] std::string description() const override { return mpi_version(); }

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
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), type, op, MPI_COMM_WORLD), "MPI_Allreduce");
  }
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int own_cores_ = 1;
};

}  // namespace

std::unique_ptr<Ranks> make_self_ranks() { return std::make_unique<SelfRanks>(); }

std::unique_ptr<Ranks> make_ranks(const MpiSession& session) {
  if (session.active()) return std::make_unique<MpiRanks>();
  return make_self_ranks();
}

}  // namespace flashbert
