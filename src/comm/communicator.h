#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace flashbert {

/// The ranks of a run. Collectives are called by all ranks in the same order; they throw PeerErrors when MPI fails.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] bool root() const { return rank() == 0; }
  /// In place, blocking, in slices of a few MiB (a large plain MPI all-reduce page-faults a temporary of its size each call).
  /// The order of the sums is fixed by the rank count.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<std::int64_t> values) = 0;
  /// Root's bytes to all.
  virtual void broadcast(void* data, std::size_t bytes) = 0;
  virtual void barrier() = 0;
  /// Ranks on this machine, and the cores this one may use without taking another's: those it is bound to, or its even share where ranks
  /// of the machine are bound to the same.
  [[nodiscard]] virtual int local_size() const = 0;
  [[nodiscard]] virtual int own_cores() const = 0;
  /// Every rank's text, in rank order, on the root; empty elsewhere.
  [[nodiscard]] virtual std::string gather_lines(const std::string& line) = 0;
  /// "self" or the MPI library's version line.
  [[nodiscard]] virtual std::string description() const = 0;
};

/// Owns MPI_Init_thread and MPI_Finalize. Without a launcher (world of one) MPI is not started at all. A world of one under a
/// launcher that announced more (OMPI_COMM_WORLD_SIZE, PMIX/PMI, SLURM_STEP_NUM_TASKS; the nearest launcher counts) is an
/// EnvironmentError that names both numbers and the plug-in option; FLASHBERT_ALLOW_SINGLE=1 overrides.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  [[nodiscard]] bool active() const { return active_; }
  /// Ends all ranks with this exit code; does not return when MPI is active.
  void abort(int code) noexcept;

 private:
  bool active_ = false;
};

/// A communicator of one, without MPI.
std::unique_ptr<Communicator> make_self_communicator();

/// The world communicator of an active session, else a communicator of one.
std::unique_ptr<Communicator> make_communicator(const MpiSession& session);

}  // namespace flashbert
