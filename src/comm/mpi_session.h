#pragma once

#include <string>

namespace flashbert {

/// Owns MPI_Init_thread and MPI_Finalize. Without a launcher (world of one) MPI is not started at all. A world of one under a
/// launcher that announced more (OMPI_COMM_WORLD_SIZE, PMIX/PMI, SLURM_STEP_NUM_TASKS; the nearest launcher counts) is an
/// EnvironmentError that names both numbers and the plug-in option; FLASHBERT_ALLOW_SINGLE=1 overrides. Outlives the Ranks and Collectives
/// that are made of it.
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

/// "Open MPI v4.1.4", or "unknown"; may be asked before MPI is started.
std::string mpi_version();

}  // namespace flashbert
