// MPI as the transport of a process group.
//
//   auto transport = holdfast::MpiTransport();
//   holdfast::ProcessGroupOptions options{.timeout_seconds = 60};
//   auto group = holdfast::MakeProcessGroup(*transport, options);
//
// MPI itself is in a library of its own, `libholdfast_mpi.so`, that is loaded
// by the first call of MpiTransport: programs that do without MPI never see it.
// It is found when the program is linked with the CMake target holdfast::mpi,
// by the environment variable HOLDFAST_MPI_LIBRARY (its path), beside holdfast,
// in `../lib` from there, or where the system looks for libraries.
//
// Messages are few and small, from point to point, with the tag kMpiTag: a
// program that receives any tag on the same communicator must not do so during
// a call of holdfast's. Every wait has a deadline (ProcessGroupOptions).
// Thread-safety: one thread at a time, and only the one that initialised MPI if
// that was with less than MPI_THREAD_SERIALIZED.
// Errors: FailedPrecondition (no such library, or one of another version; MPI
// is over), Unavailable (what MPI itself says).
#pragma once

#include <memory>
#include <optional>

#include "holdfast/export.h"
#include "holdfast/process_group.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr int kMpiTag = 27961;

struct MpiOptions {
  // MPI_Comm_c2f of an intracommunicator; absent: MPI_COMM_WORLD.
  std::optional<int> communicator;
};

// Initialises MPI unless that was done; only then it also ends MPI when the
// process exits. It waits ten seconds there for the other ranks, and aborts
// them if they do not come. Returns the same transport for each call with the
// same communicator.
Result<std::shared_ptr<ProcessTransport>> MpiTransport(
    const MpiOptions& options = {});

// True when the environment says that mpirun, mpiexec or srun started this
// process as one of several.
bool StartedByMpi();

}  // namespace holdfast
