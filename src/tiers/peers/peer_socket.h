// TCP sockets whose operations end at a deadline or when they are cancelled.
//
// Thread-safety: one thread per object; a PeerWait may be shared.
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

  // Returns ok until the deadline, unless cancelled.
  Status Check() const;
  // Returns the time until the deadline, or until cancellation should be
  // checked again, whichever is shorter.
  std::chrono::milliseconds Slice() const;
};

// Sets TCP_NODELAY, and a keep-alive that drops a dead peer in about a minute.
void SetPeerSocketOptions(int descriptor);

class PeerSocket {
 public:
  PeerSocket() = default;
  explicit PeerSocket(int descriptor) : descriptor_(descriptor) {}
  ~PeerSocket() { Close(); }
  PeerSocket(PeerSocket&& other) noexcept;
  PeerSocket& operator=(PeerSocket&& other) noexcept;

  // `host` is an address or a name. Each of a name's addresses gets an equal
  // share of the remaining time.
  static Result<PeerSocket> Connect(const std::string& host, uint16_t port,
                                    const PeerWait& wait);
  void Close();

  // Returns true if nothing unrequested has arrived: neither bytes nor the end
  // of the connection.
  bool IsQuiet() const;
  // Sends both strings. If the peer sends something or ends the connection,
  // stops early and returns false, since the peer will not read the rest.
  Result<bool> Send(std::string_view first, std::string_view second,
                    const PeerWait& wait);
  // Receives exactly `byte_count` bytes, and adds them to `received_bytes` as
  // they arrive.
  Status Receive(char* target, uint64_t byte_count, const PeerWait& wait,
                 uint64_t& received_bytes);

 private:
  int descriptor_ = -1;
};

}  // namespace holdfast
