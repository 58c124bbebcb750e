// A transport that sends messages through libholdfast_mpi.so.
//
// An MPI message consists of the topic's varint length, the topic and the
// content. A message that arrives before it is requested stays in memory.
// Thread-safety: one thread at a time. Ownership: borrows the calls and the
// connection, which live until the process exits.
#pragma once

#include <memory>

#include "ground/group/mpi_calls.h"
#include "holdfast/process_group.h"

namespace holdfast {

std::shared_ptr<ProcessTransport> MakeMpiTransport(
    const HoldfastMpiCalls& calls, const HoldfastMpiWorld& world);

}  // namespace holdfast
