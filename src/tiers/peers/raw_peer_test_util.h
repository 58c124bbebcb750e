// A peer for tests that implements the protocol by hand, and misbehaves as its
// script says. Connections are passed to the script one after the other.
//
// Thread-safety: the script runs on the peer's thread.
// Ownership: the destructor accepts no more connections and waits for the
// script.
// Errors: aborts the test program if no port is available.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "ground/base/crc32c.h"
#include "tiers/peers/peer_frame.h"
#include "tiers/peers/peer_socket.h"

namespace holdfast {

inline constexpr char kTestSecret[] = "of the test";

inline PeerWait LongWait() {
  return {WaitClock::now() + std::chrono::seconds(60)};
}

// Receives the next `byte_count` bytes; fewer if the connection ends.
inline std::string ReceiveText(PeerSocket& socket, size_t byte_count) {
  std::string text(byte_count, '\0');
  uint64_t received = 0;
  (void)socket.Receive(text.data(), byte_count, LongWait(), received);
  text.resize(received);
  return text;
}

inline void SendText(PeerSocket& socket, std::string_view text) {
  (void)socket.Send(text, {}, LongWait());
}

// Waits until the other side ends the connection.
inline void WaitForEnd(PeerSocket& socket) {
  while (!ReceiveText(socket, 1).empty()) {
  }
}

inline std::string FrameText(PeerFrameKind kind, std::string_view payload) {
  return EncodePeerHead({.kind = kind,
                         .payload_crc = Crc32c(payload),
                         .payload_bytes = payload.size()})
      .append(payload);
}

// Does the server's part of the handshake.
inline void WelcomeClient(PeerSocket& socket) {
  const std::string hello = ReceiveText(socket, kPeerHelloBytes);
  if (hello.size() < kPeerHelloBytes) return;
  const std::string nonce(kPeerNonceBytes, 'n');
  SendText(socket,
           EncodePeerHello(nonce) + PeerProof(kTestSecret, PeerSide::kServer,
                                              *ParsePeerHello(hello), nonce));
  ReceiveText(socket, kPeerProofBytes);
}

// Does the client's part of the handshake.
inline void JoinServer(PeerSocket& socket, std::string_view secret) {
  const std::string nonce(kPeerNonceBytes, 'm');
  SendText(socket, EncodePeerHello(nonce));
  const std::string welcome = ReceiveText(socket, kPeerWelcomeBytes);
  if (welcome.size() < kPeerWelcomeBytes) return;
  const std::string hello = welcome.substr(0, kPeerHelloBytes);
  SendText(socket,
           PeerProof(secret, PeerSide::kClient, nonce, *ParsePeerHello(hello)));
}

inline std::string ReceiveRequest(PeerSocket& socket) {
  const std::string bytes = ReceiveText(socket, kPeerHeadBytes);
  if (bytes.size() < kPeerHeadBytes) return {};
  const auto head = ParsePeerHead(bytes, PeerFrameKind::kRequest);
  return head.ok() ? ReceiveText(socket, head->payload_bytes) : std::string();
}

class RawPeer {
 public:
  using Script = std::function<void(PeerSocket& socket, int connection)>;

  explicit RawPeer(Script script) : script_(std::move(script)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, raw, size) != 0 || ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, raw, &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~RawPeer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  uint16_t port() const { return port_; }

 private:
  void Run() {
    for (int i = 0;; ++i) {
      const int descriptor =
          ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) return;
      PeerSocket socket(descriptor);
      script_(socket, i);
    }
  }

  const Script script_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace holdfast
