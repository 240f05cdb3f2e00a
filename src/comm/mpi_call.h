#pragma once

namespace flashbert {

/// For what an MPI function of this name returned: throws PeerError with this rank, the call and MPI's words unless it is MPI_SUCCESS.
void check_mpi(int status, const char* call);

}  // namespace flashbert
