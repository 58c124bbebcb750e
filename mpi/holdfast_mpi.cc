// libholdfast_mpi.so: sends and receives messages over MPI, through a table of
// C functions.
#include <mpi.h>
#include <time.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <string>
#include <vector>

#include "ground/group/mpi_calls.h"

namespace {

constexpr int kExitWaitSeconds = 10;
constexpr int kExitCode = 3;  // of a job that had to be aborted

struct PendingSend {
  std::string bytes;  // MPI reads them until the request is done
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Connection {
  MPI_Comm comm = MPI_COMM_NULL;
  int tag = 0;
  std::list<PendingSend> sends;
  std::vector<char> received;
};

// Returns the connections of this process. Never destroyed, because an exit
// handler still uses them when it finalizes MPI.
std::list<Connection>& Connections() {
  static auto* connections = new std::list<Connection>;
  return *connections;
}

int Fail(const char* what, int code, char* error, size_t error_bytes) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::snprintf(error, error_bytes, "%s: %s", what, text);
  return -1;
}

int FailText(const char* text, char* error, size_t error_bytes) {
  std::snprintf(error, error_bytes, "%s", text);
  return -1;
}

int DropFinishedSends(Connection& connection) {
  for (auto it = connection.sends.begin(); it != connection.sends.end();) {
    int is_done = 0;
    const int code = MPI_Test(&it->request, &is_done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
    it = is_done ? connection.sends.erase(it) : std::next(it);
  }
  return MPI_SUCCESS;
}

// Returns true once all ranks have called this, and false if one has not after
// kExitWaitSeconds. MPI_Finalize would wait for such a rank forever.
bool AllAreLeaving() {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
  const timespec pause = {0, 1000 * 1000};
  for (int i = 0; i < kExitWaitSeconds * 1000; ++i) {
    int is_done = 0;
    if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return false;
    }
    if (is_done) return true;
    nanosleep(&pause, nullptr);
  }
  return false;
}

void EndMpi() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over) return;
  if (!AllAreLeaving()) MPI_Abort(MPI_COMM_WORLD, kExitCode);
  for (Connection& connection : Connections()) {
    DropFinishedSends(connection);
    // The rest are messages that were never received because the receiver gave
    // up.
    for (PendingSend& send : connection.sends) {
      MPI_Cancel(&send.request);
      MPI_Request_free(&send.request);
    }
  }
  MPI_Finalize();
}

int StartMpi(char* error, size_t error_bytes) {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over) {
    return FailText("MPI_Finalize was called", error, error_bytes);
  }
  int is_started = 0;
  MPI_Initialized(&is_started);
  if (is_started) return 0;
  int provided = MPI_THREAD_SINGLE;
  const int code =
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) {
    return Fail("MPI_Init_thread", code, error, error_bytes);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::atexit(EndMpi);
  return 0;
}

int Open(const int* communicator, int tag, HoldfastMpiWorld* world, char* error,
         size_t error_bytes) {
  if (StartMpi(error, error_bytes) != 0) return -1;
  Connection connection;
  connection.tag = tag;
  connection.comm =
      communicator != nullptr ? MPI_Comm_f2c(*communicator) : MPI_COMM_WORLD;
  if (connection.comm == MPI_COMM_NULL) {
    return FailText("the null communicator", error, error_bytes);
  }
  int rank = 0;
  int size = 0;
  int code = MPI_Comm_rank(connection.comm, &rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(connection.comm, &size);
  if (code != MPI_SUCCESS) return Fail("MPI_Comm", code, error, error_bytes);
  Connections().push_back(std::move(connection));
  *world = {&Connections().back(), rank, size};
  return 0;
}

int Send(void* opaque, int64_t to, const char* bytes, size_t byte_count,
         char* error, size_t error_bytes) {
  Connection& connection = *static_cast<Connection*>(opaque);
  if (byte_count > INT_MAX) {
    return FailText("a message of 2 GiB or more", error, error_bytes);
  }
  int code = DropFinishedSends(connection);
  if (code != MPI_SUCCESS) return Fail("MPI_Test", code, error, error_bytes);
  PendingSend& send = connection.sends.emplace_back();
  send.bytes.assign(bytes, byte_count);
  code = MPI_Isend(send.bytes.data(), static_cast<int>(byte_count), MPI_BYTE,
                   static_cast<int>(to), connection.tag, connection.comm,
                   &send.request);
  if (code == MPI_SUCCESS) return 0;
  connection.sends.pop_back();
  return Fail("MPI_Isend", code, error, error_bytes);
}

int Poll(void* opaque, int64_t* from, const char** bytes, size_t* byte_count,
         char* error, size_t error_bytes) {
  Connection& connection = *static_cast<Connection*>(opaque);
  int code = DropFinishedSends(connection);
  if (code != MPI_SUCCESS) return Fail("MPI_Test", code, error, error_bytes);
  int has_come = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  code = MPI_Improbe(MPI_ANY_SOURCE, connection.tag, connection.comm, &has_come,
                     &message, &status);
  if (code != MPI_SUCCESS) return Fail("MPI_Improbe", code, error, error_bytes);
  if (!has_come) return 0;
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  connection.received.resize(count);
  code = MPI_Mrecv(connection.received.data(), count, MPI_BYTE, &message,
                   MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS) return Fail("MPI_Mrecv", code, error, error_bytes);
  *from = status.MPI_SOURCE;
  *bytes = connection.received.data();
  *byte_count = connection.received.size();
  return 1;
}

const HoldfastMpiCalls kCalls = {holdfast::kHoldfastMpiVersion, Open, Send,
                                 Poll};

}  // namespace

extern "C" const HoldfastMpiCalls* holdfast_mpi_calls() { return &kCalls; }
