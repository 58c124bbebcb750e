// PeerClient: requests bytes from other processes, and keeps its connections to
// them.
//
// A call ends when its time is up, whatever the peer does, and within 100 ms of
// a cancellation. A request may reach the peer twice: if a kept connection
// turns out to be dead, the request is sent again, once, on a new connection.
// Thread-safety: any thread, several calls concurrently. Calls to one peer
// beyond connections_per_peer_max wait for each other.
// Ownership: owns its connections; must outlive all calls. Units: bytes,
// seconds.
// Errors: each names the peer.
// - The error of the peer's function, with its code.
// - DeadlineExceeded without the complete answer in time, or without a
//   connection in connect_seconds_max.
// - Unavailable if the peer refuses, ends or loses the connection, or has no
//   address.
// - PermissionDenied if the peer has another secret.
// - DataLoss for an answer that is damaged, does not have the target's size, or
//   does not follow the protocol.
// - FailedPrecondition for another protocol version.
// - ResourceExhausted for an answer that is too large.
//
// After fork() the child must not use it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "tiers/peers/peer_socket.h"

namespace holdfast {

struct PeerAddress {
  std::string host;
  uint16_t port = 0;
  std::string name;  // for messages: "rank 3"
};

struct PeerClientOptions {
  std::string secret;
  double connect_seconds_max = 10;
  int connections_per_peer_max = 4;
  uint64_t answer_bytes_max = 64 << 20;
};

// Where an answer's checksum is verified. With kHere, PeerClient verifies it,
// and an answer without a checksum is DataLoss.
enum class AnswerCheck { kHere, kByCaller };

class PeerClient {
 public:
  explicit PeerClient(const PeerClientOptions& options);

  // Returns the peer's answer to `request`. If `target` is not empty, the
  // answer goes there instead, and the result is empty. After a failure, the
  // target's bytes are undefined.
  Result<Bytes> Call(const PeerAddress& peer, std::string_view request,
                     double timeout_seconds, std::span<char> target = {},
                     const CancelToken* cancel = nullptr,
                     AnswerCheck check = AnswerCheck::kHere);

 private:
  using Key = std::pair<std::string, uint16_t>;
  struct Pool {
    std::vector<PeerSocket> idle;
    int open_count = 0;  // both idle and in use
  };
  struct Question;
  struct Attempt;
  class Turn;

  Result<PeerSocket> Open(const PeerAddress& peer, const PeerWait& wait);
  Status Join(PeerSocket& socket, const PeerWait& wait);
  Result<Bytes> CallOnce(PeerSocket& socket, const Question& question,
                         const PeerWait& wait, Attempt& attempt);
  Result<Bytes> CallInTurn(const PeerAddress& peer, const Question& question,
                           const PeerWait& wait);

  const PeerClientOptions options_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<Key, Pool> pools_;
};

}  // namespace holdfast
