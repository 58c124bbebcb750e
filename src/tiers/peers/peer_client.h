// PeerClient: asks other processes for bytes, and keeps the connections.
//
// A call ends when its time does, whatever the peer does or does not do, and is
// cancelled within 100 ms. A request may reach the peer twice: where a kept
// connection turns out to be dead it is sent again, once, on a new one.
// Thread-safety: any thread, several calls at once; those to one peer beyond
// connections_per_peer_max wait for each other.
// Ownership: has its connections, which no call may outlive. Units: bytes,
// seconds. Errors: each names the peer. The failure of the peer's function,
// with its code; DeadlineExceeded without the whole answer in time (or without
// a connection in connect_seconds_max); Unavailable where the peer refuses,
// ends or loses the connection, or has no address; PermissionDenied where it
// has another secret; DataLoss for an answer that is damaged, of another size
// than the target, or none of this protocol; FailedPrecondition for another
// version of it; ResourceExhausted for one that is too large.
// After fork() the child must leave it alone.
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

// Says where an answer's checksum is verified. With kHere this class does it,
// and an answer without one is DataLoss.
enum class AnswerCheck { kHere, kByCaller };

class PeerClient {
 public:
  explicit PeerClient(const PeerClientOptions& options);

  // The peer's answer to `request`. A target that is not empty is filled, and
  // nothing returned; after a failure its bytes are any.
  Result<Bytes> Call(const PeerAddress& peer, std::string_view request,
                     double timeout_seconds, std::span<char> target = {},
                     const CancelToken* cancel = nullptr,
                     AnswerCheck check = AnswerCheck::kHere);

 private:
  using Key = std::pair<std::string, uint16_t>;
  struct Pool {
    std::vector<PeerSocket> idle;
    int open_count = 0;  // idle ones and those in use
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
