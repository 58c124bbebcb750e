// MPI as the transport of a process group.
//
//   auto transport = holdfast::MpiTransport();
//   holdfast::ProcessGroupOptions options{.timeout_seconds = 60};
//   auto group = holdfast::MakeProcessGroup(*transport, options);
//
// Only a separate library, `libholdfast_mpi.so`, uses MPI. The first call of
// MpiTransport loads it, so programs that do not use MPI never do. The library
// is found in the first of these places: in the program itself, if it is linked
// with the CMake target holdfast::mpi; at the path in the environment variable
// HOLDFAST_MPI_LIBRARY; next to holdfast; in `../lib` from there; in the
// system's library directories.
//
// Messages are few, small and point-to-point, and have the tag kMpiTag. A
// program must not receive with MPI_ANY_TAG on the same communicator during a
// call of holdfast. Every wait has a deadline (ProcessGroupOptions).
// Thread-safety: one thread at a time; if MPI was initialized with less than
// MPI_THREAD_SERIALIZED, only the thread that initialized it.
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

// Returns the transport for the communicator: every call with the same
// communicator returns the same transport. If MPI is not initialized yet,
// initializes it, and finalizes it when the process exits. The exit then waits
// up to ten seconds for the other ranks, and aborts them if they do not arrive.
Result<std::shared_ptr<ProcessTransport>> MpiTransport(
    const MpiOptions& options = {});

// Returns true if the environment shows that mpirun, mpiexec or srun started
// this process as one of several.
bool StartedByMpi();

}  // namespace holdfast
