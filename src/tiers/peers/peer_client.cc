#include "tiers/peers/peer_client.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "tiers/peers/peer_frame.h"

namespace holdfast {
namespace {

constexpr int kJoinAttempts = 5;

std::string PeerText(const PeerAddress& peer) {
  const bool has_colon = peer.host.find(':') != std::string::npos;
  const std::string host = has_colon ? "[" + peer.host + "]" : peer.host;
  const std::string place = host + ":" + std::to_string(peer.port);
  return peer.name.empty() ? place : peer.name + " (" + place + ")";
}

}  // namespace

struct PeerClient::Question {
  std::string_view request;
  std::span<char> target;
  AnswerCheck check;
};

// The result of one attempt.
struct PeerClient::Attempt {
  uint64_t answer_bytes = 0;  // received
  bool keeps_connection = false;
};

// The right to use one connection to a peer: a kept connection or a new one.
class PeerClient::Turn {
 public:
  Turn(PeerClient& client, Pool& pool) : client_(client), pool_(pool) {}
  ~Turn() {
    const std::lock_guard lock(client_.mutex_);
    if (kept_) {
      pool_.idle.push_back(*std::move(kept_));
    } else {
      --pool_.open_count;
    }
    client_.freed_.notify_all();
  }
  void Keep(PeerSocket socket) { kept_ = std::move(socket); }

 private:
  PeerClient& client_;
  Pool& pool_;  // in a map that never erases a pool
  std::optional<PeerSocket> kept_;
};

PeerClient::PeerClient(const PeerClientOptions& options) : options_(options) {}

// Opens a connection. A server with too many strangers may end it before it
// knows this client. Connecting is then retried, since no request has been sent
// yet.
Result<PeerSocket> PeerClient::Open(const PeerAddress& peer,
                                    const PeerWait& call_wait) {
  PeerWait wait = call_wait;
  wait.deadline = std::min(
      wait.deadline, WaitClock::now() + WaitTime(options_.connect_seconds_max));
  for (int attempt = 1;; ++attempt) {
    HF_ASSIGN_OR_RETURN(PeerSocket socket,
                        PeerSocket::Connect(peer.host, peer.port, wait));
    const Status joined = Join(socket, wait);
    if (joined.ok()) return socket;
    if (joined.code() != StatusCode::kUnavailable || attempt == kJoinAttempts) {
      return joined;
    }
  }
}

// Proves that this client has the secret, and checks the server's proof.
Status PeerClient::Join(PeerSocket& socket, const PeerWait& wait) {
  const std::string nonce = RandomPeerNonce();
  HF_RETURN_IF_ERROR(socket.Send(EncodePeerHello(nonce), {}, wait).status());
  std::array<char, kPeerWelcomeBytes> bytes;
  uint64_t ignored = 0;
  HF_RETURN_IF_ERROR(socket.Receive(bytes.data(), bytes.size(), wait, ignored));
  const std::string_view welcome(bytes.data(), bytes.size());
  HF_ASSIGN_OR_RETURN(const std::string_view server_nonce,
                      ParsePeerHello(welcome.substr(0, kPeerHelloBytes)));
  if (!IsSameProof(
          welcome.substr(kPeerHelloBytes),
          PeerProof(options_.secret, PeerSide::kServer, nonce, server_nonce))) {
    return PermissionDeniedError("it does not know this process's secret");
  }
  HF_RETURN_IF_ERROR(socket
                         .Send(PeerProof(options_.secret, PeerSide::kClient,
                                         nonce, server_nonce),
                               {}, wait)
                         .status());
  return Status();
}

Result<Bytes> PeerClient::CallOnce(PeerSocket& socket, const Question& question,
                                   const PeerWait& wait, Attempt& attempt) {
  const auto& [request, target, check] = question;
  const std::string head = EncodePeerHead({.kind = PeerFrameKind::kRequest,
                                           .payload_crc = Crc32c(request),
                                           .payload_bytes = request.size()});
  HF_ASSIGN_OR_RETURN(const bool is_sent, socket.Send(head, request, wait));
  std::array<char, kPeerHeadBytes> head_bytes;
  HF_RETURN_IF_ERROR(socket.Receive(head_bytes.data(), head_bytes.size(), wait,
                                    attempt.answer_bytes));
  HF_ASSIGN_OR_RETURN(const PeerFrameHead answer,
                      ParsePeerHead({head_bytes.data(), head_bytes.size()},
                                    PeerFrameKind::kAnswer));
  const bool is_ok = answer.code == StatusCode::kOk;
  const bool fills = is_ok && !target.empty();
  const uint64_t byte_count = answer.payload_bytes;
  // The size is checked before any byte is received, so that no byte is written
  // past the target.
  if (fills && byte_count != target.size()) {
    return DataLossError("the answer has another size (got " +
                         std::to_string(byte_count) + " bytes, want " +
                         std::to_string(target.size()) + ")");
  }
  if (is_ok && !fills && byte_count > options_.answer_bytes_max) {
    return ResourceExhaustedError(
        "the answer is too large (got " + std::to_string(byte_count) +
        " bytes, want at most " + std::to_string(options_.answer_bytes_max) +
        ")");
  }
  Buffer buffer;
  if (!fills && byte_count > 0) {
    buffer = Buffer::TryAllocate(byte_count);
    if (buffer.data() == nullptr) {
      return ResourceExhaustedError("no memory for an answer of " +
                                    std::to_string(byte_count) + " bytes");
    }
  }
  char* const place = fills ? target.data() : buffer.data();
  HF_RETURN_IF_ERROR(
      socket.Receive(place, byte_count, wait, attempt.answer_bytes));
  if (!answer.has_crc && check == AnswerCheck::kHere) {
    return DataLossError("the answer came without a checksum");
  }
  if (answer.has_crc && Crc32c({place, byte_count}) != answer.payload_crc) {
    return DataLossError("the answer came with another checksum");
  }
  // A peer that answers before it has the complete request does not read the
  // rest of it.
  attempt.keeps_connection = is_sent;
  if (!is_ok) {
    return Status(answer.code, std::string(place, byte_count));
  }
  return fills ? Bytes() : Bytes(std::move(buffer), byte_count);
}

Result<Bytes> PeerClient::CallInTurn(const PeerAddress& peer,
                                     const Question& question,
                                     const PeerWait& wait) {
  std::unique_lock lock(mutex_);
  Pool& pool = pools_[{peer.host, peer.port}];
  const int count_max = std::max(1, options_.connections_per_peer_max);
  while (pool.idle.empty() && pool.open_count >= count_max) {
    HF_RETURN_IF_ERROR(wait.Check());
    freed_.wait_for(lock, wait.Slice());
  }
  std::optional<PeerSocket> kept;
  if (pool.idle.empty()) {
    ++pool.open_count;
  } else {
    kept = std::move(pool.idle.back());
    pool.idle.pop_back();
  }
  lock.unlock();
  // From here on, `turn` returns the right to the connection, however this
  // function ends.
  Turn turn(*this, pool);
  if (kept && kept->IsQuiet()) {
    Attempt attempt;
    auto answer = CallOnce(*kept, question, wait, attempt);
    if (attempt.keeps_connection) turn.Keep(*std::move(kept));
    // The peer may have ended a kept connection while it was idle. If no byte
    // of an answer has arrived, the request is sent again over a new
    // connection.
    const bool was_dead = answer.status().code() == StatusCode::kUnavailable &&
                          !attempt.keeps_connection &&
                          attempt.answer_bytes == 0;
    if (!was_dead) return answer;
  }
  kept.reset();
  HF_ASSIGN_OR_RETURN(PeerSocket socket, Open(peer, wait));
  Attempt attempt;
  auto answer = CallOnce(socket, question, wait, attempt);
  if (attempt.keeps_connection) turn.Keep(std::move(socket));
  return answer;
}

Result<Bytes> PeerClient::Call(const PeerAddress& peer,
                               std::string_view request, double timeout_seconds,
                               std::span<char> target,
                               const CancelToken* cancel, AnswerCheck check) {
  const PeerWait wait{WaitClock::now() + WaitTime(timeout_seconds), cancel};
  auto answer = CallInTurn(peer, {request, target, check}, wait);
  if (answer.ok()) return answer;
  return answer.status().WithContext(PeerText(peer));
}

}  // namespace holdfast
