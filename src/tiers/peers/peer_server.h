// PeerServer: answers the requests of other processes, by a function.
//
// One thread has all connections (Boost.Asio), so that a client that is stuck
// holds up nobody; the function runs on a few others. A connection has one
// request under way at a time, and a time for everything it waits for. Memory:
// for each connection a request of at most request_bytes_max, taken when its
// client has proved to know the secret; answers of at most
// held_answer_bytes_max together, and one more for each thread: while that much
// waits for slow readers, further requests are answered ResourceExhausted.
// Answers that are files take none. Descriptors: connection_count_max for
// clients that have proved to know the secret. Strangers, who have not, are
// fewer: where there are too many the one that is longest here goes, once it
// has had its time, and until then the next ones wait in the system's queue.
// The last descriptors of the process are left to the program
// (descriptor_reserve).
// Thread-safety: any thread; the function is called from several at once.
// Ownership: keeps the function until it goes; then no call is under way.
// Units: bytes, seconds.
// Errors: of Start: InvalidArgument (no address, no secret), AlreadyExists (the
// port is taken), PermissionDenied, ResourceExhausted (no threads). The
// function's failures, and what is wrong with a request, go to the client.
// After fork() the child must leave it alone.
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
  // A numeric address; "::" takes both kinds where the system does.
  std::string address = "0.0.0.0";
  uint16_t port = 0;   // 0: any that is free
  std::string secret;  // not empty; random, since it is all there is to guess
  int thread_count = 4;
  uint64_t request_bytes_max = 1 << 20;
  // From one request of a connection to the next.
  double idle_seconds_max = 300;
  // For the rest of a request that has begun, for every 256 KiB of an answer,
  // and until a reader of files takes more.
  double stall_seconds_max = 30;
  // The bound on clients that know the secret; others are turned away at once.
  int connection_count_max = 1024;
  // At most an eighth of the descriptors that the process may have.
  int stranger_count_max = 256;
  // To prove the secret, where others wait; else stall_seconds_max.
  double stranger_seconds_min = 0.1;
  // That no connection takes: at most a quarter of those there may be.
  int descriptor_reserve = 128;
  uint64_t held_answer_bytes_max = uint64_t{1} << 30;
};

// Bytes, with their checksum; or pieces of files, without one.
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
  // Runs on threads of the server, several at once.
  using Handler = std::function<Result<PeerAnswer>(std::string_view request)>;
  static Result<std::unique_ptr<PeerServer>> Start(
      const PeerServerOptions& options, Handler handler);
  // Ends all connections, and waits for handlers that run.
  ~PeerServer();
  uint16_t port() const;

 private:
  class Rep;
  explicit PeerServer(ProcessPtr<Rep> rep);
  ProcessPtr<Rep> rep_;
};

}  // namespace holdfast
