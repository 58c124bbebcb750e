// A transport over the calls of libholdfast_mpi.so.
//
// A message is the varint length of its topic, the topic, and the rest. A
// message that arrives before it is asked for is kept in memory.
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
