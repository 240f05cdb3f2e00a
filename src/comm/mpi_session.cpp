#include "comm/mpi_session.h"

#include <mpi.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "comm/mpi_call.h"
#include "core/error.h"

namespace flashbert {
namespace {

struct Announcement {
  std::string variable;
  int size = 1;
};

/// What the nearest launcher said: mpirun inside a Slurm job counts before Slurm. SLURM_NTASKS alone proves nothing (the batch shell has
/// it too), so a step's id must stand beside it.
std::optional<Announcement> announced_size() {
  const auto read = [](const char* name) -> std::optional<Announcement> {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    const std::string_view text = value;
    int size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || end != text.data() + text.size() || size < 1) return std::nullopt;
    return Announcement{name, size};
  };
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (auto found = read(name)) return found;
  }
  if (std::getenv("SLURM_STEP_ID") != nullptr) return read("SLURM_NTASKS");
  return std::nullopt;
}

bool launched() { return announced_size().has_value() || std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr; }

}  // namespace

MpiSession::MpiSession(int* argc, char*** argv) {
  if (!launched()) return;
  int provided = 0;
  check<EnvironmentError>(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS, "MPI_Init_thread failed");
  active_ = true;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto announced = announced_size();
  const char* const allow = std::getenv("FLASHBERT_ALLOW_SINGLE");
  const bool allowed = allow != nullptr && std::string(allow) == "1";
  if (announced && announced->size != size && !allowed) {
    MPI_Finalize();
    active_ = false;
    throw EnvironmentError(fmt::format(
        "MPI sees {} rank(s), the launcher announced {} ({}): the launcher and the MPI library do not speak the same protocol. Under Slurm "
        "use "
        "srun --mpi=pmix (srun --mpi=list shows what is there); to run this process alone on purpose set FLASHBERT_ALLOW_SINGLE=1",
        size, announced->size, announced->variable));
  }
}

MpiSession::~MpiSession() {
  if (active_) MPI_Finalize();
}

void MpiSession::abort(int code) noexcept {
  if (active_) MPI_Abort(MPI_COMM_WORLD, code);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw PeerError(fmt::format("rank {}: {} failed: {}", rank, call, text));
}

}  // namespace flashbert
