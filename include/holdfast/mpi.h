// MPI as the transport of a process group.
//
//   auto transport = holdfast::MpiTransport();
//   holdfast::ProcessGroupOptions options{.timeout_seconds = 60};
//   auto group = holdfast::MakeProcessGroup(*transport, options);
//
// MPI itself is used by a separate library, `libholdfast_mpi.so`, which the
// first call of MpiTransport loads: programs that do not use MPI never load it.
// The library is found through the CMake target holdfast::mpi if the program is
// linked with it, by the environment variable HOLDFAST_MPI_LIBRARY (its path),
// next to holdfast, in `../lib` from there, or in the system's library
// directories.
//
// Messages are few, small and point-to-point, with the tag kMpiTag: a program
// that receives any tag on the same communicator must not do so during a call
// of holdfast. Every wait has a deadline (ProcessGroupOptions).
// Thread-safety: one thread at a time, and only the thread that initialised MPI
// if it was initialised with less than MPI_THREAD_SERIALIZED.
// Errors: FailedPrecondition (no such library, or another version of it; MPI
// was finalized), Unavailable (MPI's own errors).
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

// Initialises MPI unless it is already initialised; only then does it also
// finalize MPI when the process exits. It then waits ten seconds for the other
// ranks, and aborts them if they do not arrive. Every call with the same
// communicator returns the same transport.
Result<std::shared_ptr<ProcessTransport>> MpiTransport(
    const MpiOptions& options = {});

// True when the environment shows that mpirun, mpiexec or srun started this
// process as one of several.
bool StartedByMpi();

}  // namespace holdfast
