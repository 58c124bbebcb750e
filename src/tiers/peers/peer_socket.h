// TCP sockets that wait for a deadline and a cancel token, and no longer.
//
// Thread-safety: one thread an object; a PeerWait may be shared.
// Ownership: a PeerSocket closes its descriptor; a PeerWait borrows the token.
// Units: bytes. Errors: Unavailable (refused, reset, ended, no such host),
// DeadlineExceeded, Cancelled (noticed within 50 ms). No message names the
// peer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ground/base/cancel.h"
#include "ground/base/wait_time.h"
#include "holdfast/status.h"

namespace holdfast {

struct PeerWait {
  WaitClock::time_point deadline;
  const CancelToken* cancel = nullptr;  // may be null

  // Ok while there is time.
  Status Check() const;
  // The time until the deadline or until somebody should look whether the call
  // was cancelled, whichever is less.
  std::chrono::milliseconds Slice() const;
};

// TCP_NODELAY, and keep-alive that gives up a dead peer in about a minute.
void SetPeerSocketOptions(int descriptor);

class PeerSocket {
 public:
  PeerSocket() = default;
  explicit PeerSocket(int descriptor) : descriptor_(descriptor) {}
  ~PeerSocket() { Close(); }
  PeerSocket(PeerSocket&& other) noexcept;
  PeerSocket& operator=(PeerSocket&& other) noexcept;

  // `host`: an address or a name; of a name's addresses each gets an equal part
  // of the time that is left.
  static Result<PeerSocket> Connect(const std::string& host, uint16_t port,
                                    const PeerWait& wait);
  void Close();

  // True for a connection on which nobody has said or ended anything since.
  bool IsQuiet() const;
  // Sends all of both; stops early, and gives false, when the peer says
  // something or ends the connection: it will not read the rest.
  Result<bool> Send(std::string_view first, std::string_view second,
                    const PeerWait& wait);
  // Receives exactly `byte_count` bytes; `received_bytes` counts up.
  Status Receive(char* target, uint64_t byte_count, const PeerWait& wait,
                 uint64_t& received_bytes);

 private:
  int descriptor_ = -1;
};

}  // namespace holdfast
