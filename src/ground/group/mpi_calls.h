// The functions that libholdfast_mpi.so gives to holdfast: messages over MPI as
// a table of C functions, so that the two may be of different compilers, and
// holdfast does without MPI until it is asked for.
//
// Thread-safety: one thread at a time.
// Ownership: a connection lives until the process exits.
// Errors: negative results, with a text of at most `error_bytes` - 1 bytes and
// a NUL in `error`.
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
  // Initialises MPI if nobody has. `communicator`: MPI_Comm_c2f of it, or null
  // for MPI_COMM_WORLD.
  int (*open)(const int* communicator, int tag, HoldfastMpiWorld* world,
              char* error, size_t error_bytes);
  // Copies the message and does not wait for the receiver.
  int (*send)(void* connection, int64_t to, const char* bytes,
              size_t byte_count, char* error, size_t error_bytes);
  // 1: a message has come, whose bytes stay until the next poll. 0: none.
  int (*poll)(void* connection, int64_t* from, const char** bytes,
              size_t* byte_count, char* error, size_t error_bytes);
};

// The one symbol of libholdfast_mpi.so.
const HoldfastMpiCalls* holdfast_mpi_calls();

}  // extern "C"

namespace holdfast {

inline constexpr uint32_t kHoldfastMpiVersion = 1;

}  // namespace holdfast
