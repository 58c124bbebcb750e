// PeerServer: answers the requests of other processes with a function.
//
// One thread handles all connections (Boost.Asio), so that a stuck client does
// not block the others. The function runs on a few other threads. A connection
// handles one request at a time, and everything that it waits for has a
// timeout.
//
// Memory: each connection needs memory for a request of at most
// request_bytes_max, allocated once its client has proved that it knows the
// secret. Answers need at most held_answer_bytes_max in total, and one more
// answer for each thread. While that much waits for slow readers, further
// requests are answered with ResourceExhausted. Answers from files need no
// memory.
//
// Descriptors: at most connection_count_max are used for clients that have
// proved that they know the secret. Strangers, which have not, have a lower
// limit. If there are too many, the oldest is disconnected once its time is up;
// until then, further connections wait in the system's queue. The last
// descriptors of the process are left to the program (descriptor_reserve).
//
// Thread-safety: any thread; the function is called from several threads
// concurrently.
// Ownership: keeps the function until it is destroyed; then no call is running.
// Units: bytes, seconds.
// Errors of Start: InvalidArgument (no address, no secret), AlreadyExists (the
// port is in use), PermissionDenied, ResourceExhausted (no threads). Failures
// of the function, and errors in a request, are sent to the client. After
// fork() the child must not use it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/process_ptr.h"
#include "holdfast/status.h"
#include "tiers/peers/peer_file_sender.h"

namespace holdfast {

struct PeerServerOptions {
  // A numeric address; "::" accepts IPv4 and IPv6 if the system allows it.
  std::string address = "0.0.0.0";
  uint16_t port = 0;   // 0: any free port
  std::string secret;  // not empty; random, as it is the only protection
  int threads = 4;
  uint64_t request_bytes_max = 1 << 20;
  // The longest pause between two requests on a connection.
  double idle_seconds_max = 300;
  // The longest wait for the rest of a request that has begun, for the client
  // to accept 256 KiB of an answer, and for a client that reads files to accept
  // more.
  double stall_seconds_max = 30;
  // The maximum number of clients that know the secret. Further clients are
  // disconnected immediately.
  int connection_count_max = 1024;
  // The maximum number of strangers. It is also limited to an eighth of the
  // descriptors that the process may have.
  int stranger_count_max = 256;
  // The time that a stranger has to prove that it knows the secret while others
  // wait. If none waits, the time is stall_seconds_max.
  double stranger_seconds_min = 0.1;
  // The number of descriptors that no connection uses, at most a quarter of the
  // process's limit.
  int descriptor_reserve = 128;
  uint64_t held_answer_bytes_max = uint64_t{1} << 30;
};

// An answer: either bytes, which are sent with their checksum, or pieces of
// files, which are sent without one.
struct PeerAnswer {
  PeerAnswer() = default;
  explicit PeerAnswer(Bytes all) : bytes(std::move(all)) {}
  explicit PeerAnswer(std::vector<PeerFilePiece> pieces)
      : files(std::move(pieces)) {}

  Bytes bytes;
  std::vector<PeerFilePiece> files;
};

class PeerServer {
 public:
  // Runs on the server's threads, several calls concurrently.
  using Handler = std::function<Result<PeerAnswer>(std::string_view request)>;
  static Result<std::unique_ptr<PeerServer>> Start(
      const PeerServerOptions& options, Handler handler);
  // Ends all connections, and waits for running handlers.
  ~PeerServer();
  uint16_t port() const;

 private:
  class Rep;
  explicit PeerServer(ProcessPtr<Rep> rep);
  ProcessPtr<Rep> rep_;
};

}  // namespace holdfast
