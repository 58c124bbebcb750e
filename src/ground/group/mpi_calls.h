// The functions that libholdfast_mpi.so provides to holdfast for messages over
// MPI. They are a table of C functions, so that the two libraries may be built
// by different compilers. holdfast loads MPI only when it is used.
//
// Thread-safety: one thread at a time.
// Ownership: a connection lives until the process exits.
// Errors: negative results, with a message of at most `error_bytes` - 1 bytes
// and a NUL in `error`.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct HoldfastMpiWorld {
  void* connection;
  int64_t rank;
  int64_t size;
};

struct HoldfastMpiCalls {
  uint32_t version;  // kHoldfastMpiVersion
  // Initializes MPI unless that was done already. `communicator` is the
  // MPI_Comm_c2f of a communicator, or null for MPI_COMM_WORLD.
  int (*open)(const int* communicator, int tag, HoldfastMpiWorld* world,
              char* error, size_t error_bytes);
  // Copies the message and does not wait for the receiver.
  int (*send)(void* connection, int64_t to, const char* bytes,
              size_t byte_count, char* error, size_t error_bytes);
  // Returns 1 when a message has arrived; its bytes stay until the next poll.
  // Returns 0 when none has.
  int (*poll)(void* connection, int64_t* from, const char** bytes,
              size_t* byte_count, char* error, size_t error_bytes);
};

// The only symbol that libholdfast_mpi.so exports.
const HoldfastMpiCalls* holdfast_mpi_calls();

}  // extern "C"

namespace holdfast {

inline constexpr uint32_t kHoldfastMpiVersion = 1;

}  // namespace holdfast
